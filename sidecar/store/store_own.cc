// What larderd itself holds: slots that a tier writes from, and chunks brought up that wait for their engine.
#include "sidecar/store/store.h"

namespace larder::store {

using protocol::SlotState;

bool Store::keep(std::uint32_t slot, std::uint64_t generation) {
  if (slot >= table_.end() || index_.state(slot) != SlotState::kCommitted || index_.generation(slot) != generation) return false;
  Kept& kept = kept_[slot];
  if (kept.times++ != 0) return true;
  kept.generation = generation;
  kept.bytes = slot_bytes(slot);
  kept_bytes_ += kept.bytes;
  return true;
}

// The generation cannot have moved meanwhile: who keeps a slot keeps it from being given to another.
void Store::let_go(std::uint32_t slot, std::uint64_t generation) {
  const auto found = kept_.find(slot);
  if (found == kept_.end() || found->second.generation != generation || --found->second.times != 0) return;
  kept_bytes_ -= found->second.bytes;
  kept_.erase(found);
}

}  // namespace larder::store

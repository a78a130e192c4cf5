#include "sidecar/store/readers.h"

namespace larder::store {

using protocol::SlotState;

Readers::Readers(ChunkTable& chunks, SessionBook& sessions)
    : chunks_(chunks), index_(chunks.index()), table_(chunks.table()), sessions_(sessions) {}

bool Readers::keep(std::uint32_t slot, std::uint64_t generation) {
  if (slot >= table_.end() || index_.state(slot) != SlotState::kCommitted ||
      index_.generation(slot) != generation)
    return false;
  // larderd's own readers (a write to a tier, a peer) hold like engines do, but in memory of
  // larderd: no other process can disturb these holds.
  Kept& kept = kept_[slot];
  if (kept.times++ != 0) return true;
  kept.generation = generation;
  kept.bytes = chunks_.slot_bytes(slot);
  kept_bytes_ += kept.bytes;
  return true;
}

// The generation cannot have changed: a kept slot is never granted again.
void Readers::let_go(std::uint32_t slot, std::uint64_t generation) {
  const auto found = kept_.find(slot);
  if (found == kept_.end() || found->second.generation != generation || --found->second.times != 0)
    return;
  kept_bytes_ -= found->second.bytes;
  kept_.erase(found);
}

void Readers::scan(std::span<const std::uint32_t> slots) {
  holds_.clear();
  for (const std::uint32_t slot : slots) holds_.add(slot);
  sessions_.scan(holds_);
  if (kept_.empty()) return;
  for (const std::uint32_t slot : slots)
    if (kept_.contains(slot)) holds_.mark_held(slot);  // mutation: kept-is-held
}

}  // namespace larder::store

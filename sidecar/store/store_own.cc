// Slots that larderd itself writes: promotions.
#include "sidecar/store/store.h"

namespace larder::store {

using protocol::SlotState;

bool Store::promoted(const protocol::SlotRef& ref, std::uint64_t root, TierNumber from,
                     std::uint32_t since_s, bool guest) {
  Session* own = sessions_.owner(kOwnSession, ref.slot, ref.generation);
  if (own == nullptr) return false;
  // A drop quarantined the slot during the read.
  if (index_.state(ref.slot) == SlotState::kQuarantined) {  // mutation: promoted-dropped
    sessions_.give_back(*own, ref.slot);
    return false;
  }
  enter_committed(*own, ref.slot, root, guest ? kGuestUses : 0);  // mutation: guest-cold
  table_.note(ref.slot).written = 1U << from & ((1U << kMaxTiers) - 1);
  ++stats_.chunks_promoted;
  listeners_.came_up(ref.slot, since_s);
  return true;
}

void Store::promotion_failed(const protocol::SlotRef& ref) {
  Session* own = sessions_.owner(kOwnSession, ref.slot, ref.generation);
  if (own != nullptr) sessions_.give_back(*own, ref.slot);
}

}  // namespace larder::store

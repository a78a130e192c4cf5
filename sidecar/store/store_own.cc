// Slots that larderd itself writes: promotions.
#include "sidecar/store/store.h"

namespace larder::store {

using protocol::GrantStatus;
using protocol::SlotState;

protocol::Grant Store::promote(const protocol::Key& key, std::uint64_t payload_bytes,
                               std::uint64_t piece_bytes) {
  const auto answer = [](GrantStatus status) {
    return protocol::Grant{static_cast<std::uint32_t>(status), 0, 0, 0};
  };
  if (!namespaces_.is_open(key.namespace_handle))
    return answer(GrantStatus::kRefused);  // closed since the request
  const protocol::GroupLayout* layout =
      namespaces_.at(key.namespace_handle).layout(key.shard, key.group);
  if (layout == nullptr || layout->piece_bytes != piece_bytes ||
      layout->piece_bytes * layout->pieces_per_chunk != payload_bytes)
    return answer(GrantStatus::kRefused);
  chunks_.spend(1);
  if (const std::uint32_t known = index_.find(key); known != kNoSlot) {
    if (index_.state(known) != SlotState::kCommitted) return answer(GrantStatus::kPending);
    return {static_cast<std::uint32_t>(GrantStatus::kPresent), known, index_.generation(known),
            index_.offset_bytes(known)};
  }
  std::uint32_t may_examine = kReserveEffort;
  Behind alone;
  return grant_slot(kOwnSession, sessions_.own(), key, wanted(*layout), alone, may_examine);
}

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

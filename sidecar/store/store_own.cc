// Slots that larderd itself keeps or writes: chunks that a tier is writing, promotions, and
// promoted chunks that wait for their engine.
#include "sidecar/store/store.h"

namespace larder::store {

using protocol::GrantStatus;
using protocol::SlotState;

bool Store::keep(std::uint32_t slot, std::uint64_t generation) {
  if (slot >= table_.end() || index_.state(slot) != SlotState::kCommitted || index_.generation(slot) != generation) return false;
  Kept& kept = kept_[slot];
  if (kept.times++ != 0) return true;
  kept.generation = generation;
  kept.bytes = chunks_.slot_bytes(slot);
  kept_bytes_ += kept.bytes;
  return true;
}

// The generation cannot have changed: a kept slot is never granted again.
void Store::let_go(std::uint32_t slot, std::uint64_t generation) {
  const auto found = kept_.find(slot);
  if (found == kept_.end() || found->second.generation != generation || --found->second.times != 0) return;
  kept_bytes_ -= found->second.bytes;
  kept_.erase(found);
}

protocol::Grant Store::promote(const protocol::Key& key, std::uint64_t payload_bytes, std::uint64_t piece_bytes) {
  const auto answer = [](GrantStatus status) { return protocol::Grant{static_cast<std::uint32_t>(status), 0, 0, 0}; };
  if (!namespaces_.is_open(key.namespace_handle)) return answer(GrantStatus::kRefused);  // closed since the request
  const protocol::GroupLayout* layout = namespaces_.at(key.namespace_handle).layout(key.shard, key.group);
  if (layout == nullptr || layout->piece_bytes != piece_bytes || layout->piece_bytes * layout->pieces_per_chunk != payload_bytes)
    return answer(GrantStatus::kRefused);
  chunks_.spend(1);
  if (const std::uint32_t known = index_.find(key); known != kNoSlot) {
    if (index_.state(known) != SlotState::kCommitted) return answer(GrantStatus::kPending);
    return {static_cast<std::uint32_t>(GrantStatus::kPresent), known, index_.generation(known), index_.offset_bytes(known)};
  }
  std::uint32_t may_examine = kReserveEffort;
  return grant_slot(kOwnSession, sessions_.own(), key, wanted(*layout), may_examine);
}

bool Store::promoted(const protocol::SlotRef& ref, std::uint64_t root, TierNumber from, std::uint32_t since_s) {
  Session* own = sessions_.owner(kOwnSession, ref.slot, ref.generation);
  if (own == nullptr) return false;
  // A drop quarantined the slot during the read.
  if (index_.state(ref.slot) == SlotState::kQuarantined) {  // mutation: promoted-dropped
    sessions_.give_back(*own, ref.slot);
    return false;
  }
  enter_committed(*own, ref.slot, root);
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

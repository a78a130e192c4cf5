// How slots are won back: eviction, dropping, and the slots that wait until nobody reads them.
#include <algorithm>

#include "sidecar/store/store.h"
#include "sidecar/store/verify.h"

namespace larder::store {

using protocol::SlotState;

namespace {
// Slots evicted ahead of need, so that one scan of all holds serves many. A sixty-fourth of the arena at most.
constexpr std::uint32_t kMaxBatch = 1024;
constexpr std::uint32_t kBatchShare = 64;
constexpr std::size_t kPrefetchAhead = 8;
}  // namespace

std::uint32_t Store::take_slot(std::uint64_t slot_bytes, std::uint32_t& may_examine) {
  const bool same_size = arena_.adopt(slot_bytes);
  std::uint32_t slot = same_size ? arena_.take() : kNoSlot;
  if (slot != kNoSlot || may_examine == 0) return slot;
  // Somebody writes, or reads what is doomed: all would be evicted in vain.
  if (!same_size && arena_.used() != committed_) return kNoSlot;
  // Room of the same size comes by the batch; another size needs the whole arena, and one attempt a message is enough for it.
  const std::uint32_t batch = same_size ? std::clamp(arena_.total_slots() / kBatchShare, 1U, kMaxBatch) : kMaxBatch;
  std::uint64_t& counter = same_size ? stats_.evicted_capacity : stats_.evicted_resized;
  std::uint32_t left = same_size ? std::min<std::uint32_t>(may_examine, committed_) : committed_;
  may_examine = same_size ? may_examine - left : 0;
  while (left != 0 && slot == kNoSlot) {
    const std::uint32_t count = std::min(batch, left);
    left -= count;
    evict(count, counter);
    if (arena_.adopt(slot_bytes)) slot = arena_.take();
  }
  may_examine += left;
  return slot;
}

std::uint32_t Store::evict(std::uint32_t count, std::uint64_t& counter) {
  batch_.resize(count);
  batch_.resize(policy_->take_victims(batch_));
  for (const std::uint32_t slot : batch_) index_.set_state(slot, SlotState::kDying);
  scan_holds(batch_);
  std::uint32_t freed = 0;
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    if (i + kPrefetchAhead < batch_.size()) index_.prefetch(batch_[i + kPrefetchAhead]);
    const std::uint32_t slot = batch_[i];
    if (holds_.held(slot)) {  // being read: that counts as use
      index_.set_state(slot, SlotState::kCommitted);
      policy_->insert(slot);
      continue;
    }
    count_out(slot);
    index_.erase_key(slot);
    free_slot(slot);
    ++freed;
  }
  counter += freed;
  return freed;
}

// REQUIRES: none of the slots is committed.
void Store::scan_holds(std::span<const std::uint32_t> slots) {
  holds_.clear();
  for (const std::uint32_t slot : slots) holds_.add(slot);
  for (const auto& [number, session] : sessions_)
    if (session.region != nullptr && !session.silent) holds_.run(*session.region, index_, session.watch);
}

// Takes a committed slot out of sight for good. Engines that are reading it find the word moved.
void Store::doom(std::uint32_t slot, SlotList& list) {
  index_.set_state(slot, SlotState::kDying);
  index_.erase_key(slot);
  policy_->erase(slot);
  count_out(slot);
  links_.push_back(list, slot);
}

void Store::sweep() {
  if (doomed_.count == 0) return;
  batch_.clear();
  for (std::uint32_t slot = doomed_.first; slot != kNoSlot; slot = links_.next(slot)) batch_.push_back(slot);
  scan_holds(batch_);
  for (const std::uint32_t slot : batch_) {
    if (holds_.held(slot)) continue;
    links_.remove(doomed_, slot);
    free_slot(slot);
  }
}

void Store::report_bad(const protocol::SlotRef& ref) {
  ++stats_.bad_reported;
  if (ref.slot >= arena_.end() || index_.state(ref.slot) != SlotState::kCommitted ||
      index_.generation(ref.slot) != ref.generation)
    return;
  ++stats_.evicted_bad;
  doom(ref.slot, unverified_);
}

bool Store::verify_next() {
  if (unverified_.count == 0) return false;
  const std::uint32_t slot = unverified_.first;
  const protocol::EntryView view = index_.view(slot);
  if (!verify_payload(arena_memory_ + view.offset_bytes, view)) ++stats_.bad_confirmed;
  links_.remove(unverified_, slot);
  links_.push_back(doomed_, slot);
  return true;
}

template <typename Wanted>
std::uint64_t Store::drop_if(const Wanted& wanted) {
  std::uint64_t dropped = 0;
  for (std::uint32_t slot = 0; slot < arena_.end(); ++slot) {
    const SlotState state = index_.state(slot);
    if (state != SlotState::kCommitted && state != SlotState::kGranted) continue;
    if (!wanted(index_.view(slot).key.namespace_handle)) continue;
    if (state == SlotState::kGranted) {
      quarantine(sessions_.at(index_.session(slot)), slot);
      continue;
    }
    doom(slot, doomed_);
    ++dropped;
  }
  stats_.evicted_dropped += dropped;
  sweep();
  return dropped;
}

std::uint64_t Store::drop_namespace(std::uint32_t handle) {
  if (namespaces_.at(handle).chunks == 0 && granted_ == 0) return 0;  // repeated drops need not scan every slot
  return drop_if([handle](std::uint32_t other) { return other == handle; });
}

std::uint64_t Store::clear() {
  return drop_if([](std::uint32_t) { return true; });
}

}  // namespace larder::store

// Eviction, drops, and doomed slots that wait for their last reader.
#include <algorithm>

#include "shim/base/test_point.h"
#include "sidecar/store/store.h"
#include "sidecar/store/verify.h"

namespace larder::store {

using protocol::SlotState;

namespace {
constexpr std::size_t kPrefetchAhead = 8;
}  // namespace

// Evicts the families of these slots, in order, until `enough` slots are free or `may_examine` is
// used up, and one family more at most. One scan of all holds serves the whole batch. A family with
// a held or unfinished chunk stays, and counts as used. Returns the number of free slots.
std::uint32_t Store::evict_families(std::span<const std::uint32_t> slots, std::size_t enough, std::uint32_t& may_examine,
                                    std::uint64_t& counter) {
  batch_.clear();
  family_end_.clear();
  for (std::size_t i = 0; i < slots.size() && batch_.size() < enough && may_examine != 0; ++i) {
    if (i + 2 * kPrefetchAhead < slots.size()) chunks_.prefetch_slot(slots[i + 2 * kPrefetchAhead]);
    if (i + kPrefetchAhead < slots.size()) prefetch_family(chunks_, slots[i + kPrefetchAhead]);
    const std::uint64_t before = chunks_.effort();
    chunks_.spend(1);
    if (index_.state(slots[i]) == SlotState::kCommitted) claim_family(slots[i]);  // else gone with an earlier family
    may_examine -= static_cast<std::uint32_t>(std::min<std::uint64_t>(may_examine, chunks_.effort() - before));
  }
  LARDER_POINT(victims_dying);
  readers_.scan(batch_);
  LARDER_POINT(victims_scanned);
  std::uint32_t freed = 0, begin = 0;
  for (const std::uint32_t end : family_end_) {
    if (begin + 2 * kPrefetchAhead < batch_.size()) chunks_.prefetch_slot(batch_[begin + 2 * kPrefetchAhead]);
    if (begin + kPrefetchAhead < batch_.size()) chunks_.prefetch_freeing(batch_[begin + kPrefetchAhead]);
    if (release_family(std::span(batch_).subspan(begin, end - begin))) freed += end - begin;
    begin = end;
  }
  counter += freed;
  return freed;
}

// Marks the committed slots of the family as dying and adds them to the batch, unless the family
// must stay.
void Store::claim_family(std::uint32_t slot) {
  const protocol::Key key = index_.key(slot);
  find_family(chunks_, key.namespace_handle, key.hash, family_, slot);
  const bool stays = !family_.granted.empty();            // a pinned family is pinned as a whole and never a candidate
  for (const std::uint32_t member : family_.committed) {  // mutation: family-together
    if (stays) {
      chunks_.touch_order(member);
    } else {
      chunks_.leave_order(member);
      index_.set_state(member, SlotState::kDying);  // mutation: evict-dying-first
      batch_.push_back(member);
    }
  }
  if (!stays) family_end_.push_back(static_cast<std::uint32_t>(batch_.size()));
}

// Frees a family, unless an engine reads it: then the family stays. Returns whether the family is
// free. REQUIRES: the words of the slots left the committed state, and all holds were scanned
// *after* that. The order matters: an engine announces a hold first and then checks the word, so
// one side always sees the other.
bool Store::release_family(std::span<const std::uint32_t> slots) {
  const bool held = std::any_of(slots.begin(), slots.end(),
                                [this](std::uint32_t slot) { return readers_.held(slot); });  // mutation: evict-held, family-hold
  for (const std::uint32_t slot : slots) {
    if (held) {                                       // that counts as use
      index_.set_state(slot, SlotState::kCommitted);  // mutation: evict-recommit
      chunks_.enter_order(slot);
      continue;
    }
    if (const auto age_ms = ages_.age_ms(table_.note(slot).used_stamp)) stats_.age_at_eviction.record(*age_ms);
    listeners_.count_lost(slot);
    chunks_.count_out(slot);
    index_.erase_key(slot);
    chunks_.free_slot(slot);
  }
  return !held;
}

// Hides a committed slot for good. Engines that are reading the slot notice the changed word.
void Store::doom(std::uint32_t slot, SlotList& list) {
  // An engine that has not attached again would still find the chunk in the earlier index.
  grace_.supersede();  // mutation: supersede-bad
  index_.set_state(slot, SlotState::kDying);
  index_.erase_key(slot);
  if (table_.note(slot).pinned) {
    chunks_.unpin(slot);
  } else {
    chunks_.leave_order(slot);
  }
  chunks_.count_out(slot);
  table_.push_back(list, slot);
  if (&list == &doomed_) chunks_.detach(slot);  // an unverified chunk keeps its key for the message to lower tiers
}

void Store::sweep() {
  std::uint32_t may_examine = kReserveEffort;
  if (!grace_.settling()) go_on_draining(may_examine);
  free_doomed();
}

void Store::free_doomed() {
  // Engines may not have announced all holds again.
  if (grace_.settling()) return;  // mutation: settle-dying
  if (doomed_.count == 0) return;
  batch_.clear();
  for (std::uint32_t slot = doomed_.first; slot != kNoSlot; slot = table_.next(slot)) batch_.push_back(slot);
  readers_.scan(batch_);
  for (const std::uint32_t slot : batch_) {
    if (readers_.held(slot)) continue;  // mutation: dropped-waits
    table_.remove(doomed_, slot);
    chunks_.free_slot(slot);
  }
}

void Store::report_bad(const protocol::SlotRef& ref) {
  ++stats_.bad_reported;
  if (ref.slot >= table_.end() || index_.state(ref.slot) != SlotState::kCommitted ||
      index_.generation(ref.slot) != ref.generation)  // mutation: bad-generation
    return;
  ++stats_.evicted_bad;
  if (table_.note(ref.slot).pinned) {  // the family is useless until this chunk is stored again
    const protocol::Key key = index_.key(ref.slot);
    find_family(chunks_, key.namespace_handle, key.hash, family_);
    chunks_.unpin_all(family_.committed);
  }
  doom(ref.slot, unverified_);
}

bool Store::verify_next() {
  if (unverified_.count == 0) return false;
  const std::uint32_t slot = unverified_.first;
  const protocol::EntryView view = index_.view(slot);
  if (!verify_payload(chunks_.slot_memory(view).data(), view)) {
    ++stats_.bad_confirmed;
    listeners_.damaged(view);
  }
  table_.remove(unverified_, slot);
  table_.push_back(doomed_, slot);
  chunks_.detach(slot);
  return true;
}

void Store::drop(Drop& drop) {
  // The earlier index may have chunks that are missing here.
  grace_.supersede();                                                          // mutation: supersede-drop
  if (drop.announced.empty() && !drop.memory_only) listeners_.announce(drop);  // mutation: drop-reaches-disk
  const bool gone = drop.handle && !namespaces_.is_open(*drop.handle);
  // A repeated drop need not look at every slot.
  if (drop.next == 0 && sessions_.granted() == 0 && !gone &&
      (drop.handle ? namespaces_.at(*drop.handle).slots : chunks_.committed()) == 0)
    drop.done = true;
  if (gone || (drop.memory_only && namespaces_.at(*drop.handle).sessions != 0)) drop.done = true;
  if (drop.done) return drop.announced.clear();
  const std::uint32_t begin = drop.next;
  const std::uint64_t dropped_before = drop.dropped;
  drop.next += std::min(kSliceEffort, table_.end() - begin);
  chunks_.spend(drop.next - begin);
  for (std::uint32_t slot = begin; slot < drop.next; ++slot) drop_slot(drop, slot);
  stats_.evicted_dropped += drop.dropped - dropped_before;
  drop.done = drop.next == table_.end();
  if (drop.done) drop.announced.clear();
  free_doomed();
}

void Store::drop_slot(Drop& drop, std::uint32_t slot) {
  const SlotState state = index_.state(slot);
  if (state == SlotState::kFree || state == SlotState::kQuarantined) return;
  const std::uint32_t handle = index_.key(slot).namespace_handle;
  if (handle == protocol::kNoNamespace || (drop.handle && handle != *drop.handle)) return;
  if (state == SlotState::kGranted)
    return sessions_.quarantine(sessions_.at(index_.session(slot)), slot);  // mutation: drop-in-writing
  if (state == SlotState::kCommitted) {
    doom(slot, doomed_);
    ++drop.dropped;
  } else if (drop.memory_only) {  // reported bad: the place is needed before the verification
    table_.remove(unverified_, slot);
    table_.push_back(doomed_, slot);
    chunks_.detach(slot);
  }
}

}  // namespace larder::store

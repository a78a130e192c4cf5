#include "sidecar/store/removals.h"

#include <algorithm>

#include "sidecar/store/store_limits.h"
#include "sidecar/store/verify.h"

namespace larder::store {

using protocol::SlotState;

Removals::Removals(ChunkTable& chunks, RecoveryGrace& grace, TierListeners& listeners,
                   SessionBook& sessions, Readers& readers, stats::Stats& stats)
    : chunks_(chunks),
      index_(chunks.index()),
      table_(chunks.table()),
      namespaces_(chunks.namespaces()),
      grace_(grace),
      listeners_(listeners),
      sessions_(sessions),
      readers_(readers),
      stats_(stats) {}

// Hides a committed slot for good. Engines that are reading the slot notice the changed word.
void Removals::doom(std::uint32_t slot, SlotList& list) {
  // An engine that has not attached again would still find the chunk in the earlier index.
  grace_.supersede();  // mutation: supersede-bad
  index_.set_state(slot, SlotState::kDying);
  index_.erase_key(slot);
  if (table_.note(slot).pinned) {
    chunks_.unpin(slot);
  } else {
    chunks_.order().leave(slot);
  }
  chunks_.count_out(slot);
  table_.push_back(list, slot);
  if (&list == &doomed_)
    chunks_.detach(slot);  // an unverified chunk keeps its key for the message to lower tiers
}

void Removals::free_doomed() {
  // Engines may not have announced all holds again.
  if (grace_.active()) return;  // mutation: settle-dying
  if (doomed_.count == 0) return;
  batch_.clear();
  for (std::uint32_t slot = doomed_.first; slot != kNoSlot; slot = table_.next(slot))
    batch_.push_back(slot);
  readers_.scan(batch_);
  for (const std::uint32_t slot : batch_) {
    if (readers_.held(slot)) continue;  // mutation: dropped-waits
    table_.remove(doomed_, slot);
    chunks_.free_slot(slot);
  }
}

void Removals::report_bad(const protocol::SlotRef& ref) {
  ++stats_.bad_reported;
  // A report is a claim of an engine. It names the generation, so that a late report never removes
  // the slot's next chunk.
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

bool Removals::verify_next() {
  if (unverified_.count == 0) return false;
  const std::uint32_t slot = unverified_.first;
  const protocol::EntryView view = index_.view(slot);
  // The store checks the claim itself before lower tiers lose the chunk: one faulty engine must not
  // delete the chunks of all.
  if (!verify_payload(chunks_.slot_memory(view).data(), view)) {
    ++stats_.bad_confirmed;
    listeners_.damaged(view);
  }
  table_.remove(unverified_, slot);
  table_.push_back(doomed_, slot);
  chunks_.detach(slot);
  return true;
}

void Removals::drop(Drop& drop) {
  // The earlier index may have chunks that are missing here.
  grace_.supersede();  // mutation: supersede-drop
  const bool gone = drop.handle && !namespaces_.is_open(*drop.handle);
  if (!gone && drop.announced.empty() && !drop.memory_only)
    listeners_.announce(drop);  // mutation: drop-reaches-disk
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

void Removals::drop_slot(Drop& drop, std::uint32_t slot) {
  const SlotState state = index_.state(slot);
  if (state == SlotState::kFree || state == SlotState::kQuarantined) return;
  const std::uint32_t handle = index_.key(slot).namespace_handle;
  if (handle == protocol::kNoNamespace || (drop.handle && handle != *drop.handle)) return;
  if (state == SlotState::kGranted)
    // The writer may be in the middle of a copy. The slot is free only once the writer has surely
    // stopped.
    return sessions_.quarantine(sessions_.at(index_.session(slot)),
                                slot);  // mutation: drop-in-writing
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

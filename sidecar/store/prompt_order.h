// PromptOrder: the order of eviction, in which each chunk leaves before its parent.
//
// A chunk is useless without the chunks before it in its prompt, its ancestors. A use of a chunk is
// therefore a use of its ancestors, and each chunk stands below its parent in the order. The links
// name the ancestors (IndexWriter::parent); a chunk without a link stands alone. Guests and own
// chunks have orders of their own, and so have slots of two sizes. There a chunk only counts as
// used before its parent. Candidates are the committed slots without a pin. Owned by the thread of
// the store.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sidecar/store/adaptive.h"
#include "sidecar/store/eviction_policy.h"
#include "sidecar/store/index_writer.h"
#include "sidecar/store/slot_arena.h"
#include "sidecar/store/slot_table.h"
#include "sidecar/store/store_limits.h"

namespace larder::store {

class PromptOrder {
 public:
  // All parts outlive this object.
  PromptOrder(const IndexWriter& index, SlotTable& table, SlotArena& arena, Eviction eviction);
  PromptOrder(const PromptOrder&) = delete;

  EvictionPolicy& policy() { return *policy_; }

  // Begins a message or a batch of events. One batch moves each ancestor once, and walks
  // kReserveEffort links at most. Ancestors behind them keep their place, and the moved chunks
  // stand below them. The searches for candidates pass as many other chunks at most, and a chunk
  // behind those stands alone.
  void begin_uses() {
    uses_begun_ = arena_.uses();
    steps_left_ = passes_left_ = kReserveEffort;
  }
  // Adds a slot as just used, and moves its ancestors.
  void enter(std::uint32_t slot) { enter(slot, false); }
  // Adds a new chunk directly below its nearest ancestor; use_for_child() has moved the ancestor.
  void enter_new(std::uint32_t slot) {
    const std::uint32_t parent = index_.parent(slot);
    if (adaptive_ != nullptr) adaptive_->stored(slot, name_of(slot), parent);
    enter_below(slot, nearest_candidate(parent));
  }
  // Adds a slot as the warmest, whatever its ancestors.
  void enter_alone(std::uint32_t slot) { enter_below(slot, kNoSlot); }
  // A use of the slot. No effect on a pinned slot.
  void touch(std::uint32_t slot) {
    if (table_.note(slot).pinned) return;
    leave(slot);
    count_use(slot);
    enter_used(slot, true);
  }
  // As enter(), after a use: a guest comes closer to an own chunk.
  void enter_used(std::uint32_t slot) { enter_used(slot, false); }
  // The slot has left to make room.
  void evicted(std::uint32_t slot) {
    if (adaptive_ != nullptr) adaptive_->evicted(slot, name_of(slot));
  }
  // Makes the slot the next own victim of its size. A prompt is demoted from the first chunk on, so
  // that each chunk leaves before its parent. Chunks of other prompts behind a demoted chunk keep
  // their place: their next use moves the chunk up again. No effect on pinned slots and guests.
  void demote(std::uint32_t slot);
  // REQUIRES: the slot is a candidate in the order.
  void leave(std::uint32_t slot) {
    policy_->erase(slot, arena_.class_of(slot));
    arena_.erase_candidate(slot);
  }
  // A chunk behind `parent` (or kNoSlot) is about to be stored: a use of the parent and of its
  // ancestors. The new chunk will stand below the nearest candidate among them. Returns the stamp
  // of that candidate, or kAnyStamp without one.
  std::uint64_t use_for_child(std::uint32_t parent);
  static constexpr std::uint64_t kAnyStamp = UINT64_MAX;
  // As use_for_child(), without a use.
  std::uint64_t stamp_for_child(std::uint32_t parent);

  // The number of links walked, in total: see Store::effort().
  std::uint64_t effort() const { return effort_; }

 private:
  void enter(std::uint32_t slot, bool counts);
  void enter_used(std::uint32_t slot, bool counts) {
    if (table_.note(slot).guest != 0) --table_.note(slot).guest;  // mutation: guest-used
    enter(slot, counts);
  }
  // A use of a prompt is one use of each of its chunks, however often a message names them. A
  // store behind a chunk is a use in the order, but does not count: a long prompt is stored in many
  // messages.
  void count_use(std::uint32_t slot) {
    if (adaptive_ != nullptr && !used_in_batch(slot)) adaptive_->used(slot);
  }
  std::uint64_t name_of(std::uint32_t slot) const { return index_.key(slot).mixed(); }
  bool candidate(std::uint32_t slot) const {
    return index_.state(slot) == protocol::SlotState::kCommitted && !table_.note(slot).pinned;
  }
  bool used_in_batch(std::uint32_t slot) const {
    return older(uses_begun_, table_.note(slot).used_stamp);
  }
  std::uint32_t nearest_candidate(std::uint32_t slot);
  std::uint32_t list_ancestors(std::uint32_t slot);
  void move_up(std::uint32_t slot, std::uint32_t above, bool counts);
  void enter_below(std::uint32_t slot, std::uint32_t above);

  const IndexWriter& index_;
  SlotTable& table_;
  SlotArena& arena_;
  std::unique_ptr<EvictionPolicy> policy_;
  Adaptive* adaptive_ = nullptr;  // policy_, if it learns
  std::uint64_t uses_begun_ = 0;  // uses with a later stamp are of this batch
  std::uint32_t steps_left_ = kReserveEffort, passes_left_ = kReserveEffort;
  std::uint64_t effort_ = 0;
  std::vector<std::uint32_t> ancestors_;  // scratch of enter()
};

}  // namespace larder::store

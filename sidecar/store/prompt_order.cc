#include "sidecar/store/prompt_order.h"

#include <ranges>
#include <utility>

#include "sidecar/store/lru.h"

namespace larder::store {

PromptOrder::PromptOrder(const IndexWriter& index, SlotTable& table, SlotArena& arena,
                         Eviction eviction)
    : index_(index), table_(table), arena_(arena) {
  if (eviction == Eviction::kLru) {
    policy_ = std::make_unique<Lru>(table);
    return;
  }
  auto adaptive = std::make_unique<Adaptive>(table, index.entry_count());
  adaptive_ = adaptive.get();
  policy_ = std::move(adaptive);
}

// Lists in ancestors_ the ancestors that move, the nearest first. Returns the first ancestor that
// stays: this batch has used it, or the batch may look at no more. kNoSlot: all move.
std::uint32_t PromptOrder::list_ancestors(std::uint32_t slot) {
  ancestors_.clear();
  for (std::uint32_t above = index_.parent(slot); above != kNoSlot; above = index_.parent(above)) {
    const bool moves = candidate(above);
    if (moves && used_in_batch(above)) return above;
    if (steps_left_ == 0) return nearest_candidate(above);  // mutation: ancestor-steps
    --steps_left_;
    ++effort_;
    if (moves) ancestors_.push_back(above);
  }
  return kNoSlot;
}

// The slot or its nearest ancestor that is a candidate; kNoSlot: none, or none that this batch may
// look for. The search passes grants in progress and pinned chunks.
std::uint32_t PromptOrder::nearest_candidate(std::uint32_t slot) {
  while (slot != kNoSlot && !candidate(slot)) {
    if (passes_left_ == 0) return kNoSlot;  // mutation: passed-steps
    --passes_left_;
    ++effort_;
    slot = index_.parent(slot);
  }
  return slot;
}

void PromptOrder::enter(std::uint32_t slot, bool counts) {
  std::uint32_t above = list_ancestors(slot);
  if (above == kNoSlot) {  // the later a use, the warmer: the slot first, its root last
    enter_below(slot, kNoSlot);
    for (const std::uint32_t ancestor : ancestors_)
      move_up(ancestor, kNoSlot, counts);  // mutation: head-last
    return;
  }
  for (const std::uint32_t ancestor : std::views::reverse(ancestors_)) {
    move_up(ancestor, above, counts);
    above = ancestor;
  }
  enter_below(slot, above);
}

void PromptOrder::move_up(std::uint32_t slot, std::uint32_t above, bool counts) {
  leave(slot);
  if (counts) count_use(slot);
  enter_below(slot, above);
}

// Adds a slot directly below another, or as the warmest.
void PromptOrder::enter_below(std::uint32_t slot, std::uint32_t above) {
  const std::uint32_t size_class = arena_.class_of(slot);
  if (above == kNoSlot || arena_.class_of(above) != size_class ||
      (table_.note(above).guest != 0) != (table_.note(slot).guest != 0)) {
    arena_.insert_candidate(slot);
    return policy_->insert(slot, size_class);
  }
  arena_.insert_candidate(slot, table_.note(above).used_stamp);
  policy_->insert_below(slot, above, size_class);  // mutation: child-below
}

void PromptOrder::demote(std::uint32_t slot) {
  const SlotNote& note = table_.note(slot);
  if (note.pinned || note.guest != 0) return;
  const std::uint32_t coldest = policy_->first_own_victim(arena_.class_of(slot));
  if (coldest == slot) return;
  leave(slot);
  if (adaptive_ != nullptr && coldest != kNoSlot) adaptive_->join(slot, coldest);
  enter_below(slot, coldest);  // mutation: demoted-first
}

std::uint64_t PromptOrder::use_for_child(std::uint32_t parent) {
  const std::uint32_t nearest = nearest_candidate(parent);
  if (nearest == kNoSlot) return kAnyStamp;
  if (!used_in_batch(nearest)) {
    leave(nearest);
    enter(nearest);
  }
  return table_.note(nearest).used_stamp;
}

std::uint64_t PromptOrder::stamp_for_child(std::uint32_t parent) {
  const std::uint32_t nearest = nearest_candidate(parent);
  return nearest == kNoSlot ? kAnyStamp : table_.note(nearest).used_stamp;
}

}  // namespace larder::store

// Where the next slot of a size comes from when none is free: its own coldest chunks, or a window of the arena that others hold.
#include <algorithm>

#include "sidecar/store/store.h"

namespace larder::store {

namespace {
// Slots evicted ahead of need, so that one scan of all holds serves many. At most one part in so many of the size's slots.
constexpr std::uint32_t kMaxBatch = 4096;
constexpr std::uint32_t kBatchShare = 256;
// Slots whose holds are looked at before a window is chosen, and windows looked at.
constexpr std::uint32_t kMaxWindowSlots = 4096;
// A window is given up only where it is so much older than the size's own coldest chunk, so that sizes do not take turns.
constexpr double kColder = 1.5;
constexpr int kMaxWindows = 8;
}  // namespace

SlotArena::Slot Store::take_slot(std::uint32_t size_class, std::uint32_t& may_examine) {
  for (;;) {
    const SlotArena::Slot slot = arena_.take(size_class);
    if (slot.number != kNoSlot || may_examine == 0 || !make_room(size_class, may_examine)) return slot;
  }
}

// One step. False: nothing was won by it.
bool Store::make_room(std::uint32_t size_class, std::uint32_t& may_examine) {
  // Not every hold has been announced again: only free slots are given.
  if (settling_) return false;  // mutation: settle-evict
  if (go_on_draining(may_examine) != 0) return true;
  if (table_.used_up()) {  // a place is no use without a number, and any slot that goes leaves one
    const std::optional<std::uint32_t> coldest = coldest_candidate();
    if (coldest && evict_of(arena_.class_of(*coldest), may_examine)) return true;
  } else if (!arena_.draining() && start_drain(size_class)) {
    return true;
  }
  if (evict_of(size_class, may_examine)) return true;
  may_examine = 0;  // all of them are held or pinned: asked once a message
  return false;
}

bool Store::evict_of(std::uint32_t size_class, std::uint32_t& may_examine) {
  std::uint32_t batch = std::clamp(arena_.class_slots(size_class) / kBatchShare, 1U, kMaxBatch);
  std::uint32_t left = std::min(may_examine, arena_.class_slots(size_class));
  for (; left != 0; batch *= 2) {  // what is held goes behind the others, so that the next ones come up
    victims_.resize(std::min(batch, left));
    victims_.resize(policy_->first_victims(size_class, victims_));
    if (victims_.empty()) break;
    left -= static_cast<std::uint32_t>(victims_.size());
    if (evict_families(victims_, victims_.size(), may_examine, stats_.evicted_capacity) != 0) return true;
    left = std::min(left, may_examine);
  }
  return false;
}

std::optional<std::uint32_t> Store::coldest_candidate() const {
  std::optional<std::uint32_t> coldest;
  std::uint32_t slot = kNoSlot;
  for (std::uint32_t number = 0; number < arena_.class_count(); ++number)
    if (policy_->first_victims(number, std::span(&slot, 1)) != 0 && (!coldest || arena_.age(slot) > arena_.age(*coldest)))
      coldest = slot;
  return coldest;
}

// Whether another part of the arena should be given up for this size, rather than its own coldest chunks: where that part is colder
// on average, or where little is lost and spans too short for a slot are gathered.
bool Store::start_drain(std::uint32_t size_class) {
  std::uint32_t own = kNoSlot;
  const bool has_own = policy_->first_victims(size_class, std::span(&own, 1)) != 0;
  for (int i = 0; i < kMaxWindows; ++i) {
    std::optional<SlotArena::Window> window = arena_.scattered_window(size_class);
    if (!window) {
      const std::optional<std::uint32_t> coldest = coldest_candidate();
      window = arena_.coldest_window(size_class, coldest ? arena_.age(*coldest) : 0);
      if (window && has_own && window->mean_age <= kColder * static_cast<double>(arena_.age(own))) window.reset();
    }
    if (window && any_held(*window)) continue;
    arena_.clear_avoided();
    if (window) arena_.drain(*window);
    return arena_.draining();  // not where the window is a free span: there is room, and it cannot be cut
  }
  arena_.clear_avoided();
  return false;
}

// Only a look: evicting asks again, in the order that is safe. Extents that hold such slots are avoided from now on.
bool Store::any_held(const SlotArena::Window& window) {
  victims_.resize(kMaxWindowSlots);
  victims_.resize(arena_.slots_in(window.range, victims_));
  scan_holds(victims_);
  bool any = false;
  for (const std::uint32_t slot : victims_) {
    if (!holds_.held(slot)) continue;
    arena_.avoid(slot);
    any = true;
  }
  return any;
}

std::uint32_t Store::go_on_draining(std::uint32_t& may_examine) {
  if (!arena_.draining() || may_examine == 0) return 0;
  victims_.resize(may_examine);
  victims_.resize(arena_.slots_in(arena_.drained_range(), victims_));
  return evict_families(victims_, victims_.size() + 1, may_examine, stats_.evicted_resized);
}

}  // namespace larder::store

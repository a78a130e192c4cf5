// SlotArena: slots of several sizes, from extents. Only numbers; the class never sees the memory.
//
// An extent is a run of whole slots of one size, cut from a free span of the touched arena. An
// extent is long (a 128th of the arena if it fits), because each extent loses less than one slot.
// An extent without a used slot becomes a free span at once. Places that an extent never gave out
// are taken back when another size needs them. If neither helps, the store drains a window: it
// evicts the content of neighbouring extents and spans (see DrainChooser). No
// slot is given out in a window that is being drained. Owned by the thread of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sidecar/store/arena_map.h"
#include "sidecar/store/drain_chooser.h"
#include "sidecar/store/prefetch.h"
#include "sidecar/store/slot_extent.h"
#include "sidecar/store/slot_table.h"

namespace larder::store {

class SlotArena {
 public:
  // `table` outlives this object. A slot number is an entry of `table`, independent of the place of
  // the slot.
  SlotArena(std::uint64_t arena_bytes, SlotTable& table);
  SlotArena(const SlotArena&) = delete;

  // Only memory below `bytes` is given out. Never shrinks.
  void set_touched_bytes(std::uint64_t bytes);

  // The class of a slot size. The class may become invalid when this function is called for another
  // size while this size has no extent.
  std::uint32_t size_class(std::uint64_t slot_bytes);
  std::uint32_t class_of(std::uint32_t slot) const {
    return extents_[table_.note(slot).extent].size_class;
  }
  // REQUIRES, here and below: `size_class` is from size_class().
  std::uint32_t class_slots(std::uint32_t size_class) const { return classes_[size_class].slots; }

  // About how many slots of the size can be given out without eviction: free places, and spans that
  // can be cut.
  std::uint64_t room(std::uint32_t size_class) const;

  struct Slot {
    std::uint32_t number = kNoSlot;
    std::uint64_t offset_bytes = 0;
  };
  // A slot of the size. The number is kNoSlot without room or without a free number.
  Slot take(std::uint32_t size_class);
  // REQUIRES: take() gave the slot at this offset, and the slot is no candidate.
  void give(std::uint32_t slot, std::uint64_t offset_bytes);
  // For a restart, before any take(): makes one extent of as many of the first `slots` as fit.
  // Returns that number; 0: no extent is left. REQUIRES: sorted by place, in touched memory,
  // without overlap with each other or an extent; the numbers are taken.
  struct Placed {
    std::uint32_t number;
    std::uint32_t start, pages;  // in protocol::kSlotAlignBytes
  };
  std::size_t adopt(std::span<const Placed> slots);
  // Prefetches the line that give() writes.
  void prefetch_place(std::uint32_t slot, std::uint64_t offset_bytes) const {
    const Extent& extent = extents_[table_.note(slot).extent];
    store::prefetch(&extent.places[place_of(extent, offset_bytes)]);
  }

  // Candidates are the slots that may be evicted. An extent with other used slots (granted,
  // quarantined, pinned or doomed) is not drained. The age of an extent is the age of its
  // candidates. insert_candidate() stamps a use; a slot that is used again is erased and inserted.
  void insert_candidate(std::uint32_t slot);
  // Adds a candidate with the stamp of another one.
  void insert_candidate(std::uint32_t slot, std::uint64_t stamp);
  void erase_candidate(std::uint32_t slot);
  // The number of uses of all slots since the last use of this slot. REQUIRES: a candidate.
  std::uint64_t age(std::uint32_t slot) const {
    return (uses_ - table_.note(slot).used_stamp) & kMostStamp;
  }
  // The number of stamps so far.
  std::uint64_t uses() const { return uses_; }

  // ---- Draining: at most one window at a time ----
  using Window = DrainWindow;
  // See DrainChooser.
  std::optional<Window> coldest_window(std::uint32_t size_class, std::uint64_t oldest) const {
    return chooser_.coldest_window(size_class, oldest);
  }
  std::optional<Window> scattered_window(std::uint32_t size_class) const {
    return chooser_.scattered_window(size_class);
  }
  void drain(const Window& window);
  void stop_draining();
  bool draining() const { return drain_.end != 0; }
  bool draining(std::uint32_t slot) const { return extents_[table_.note(slot).extent].draining; }
  // Writes the slots in the extents of `range` into `slots`. Returns the number.
  std::size_t slots_in(const PageRange& range, std::span<std::uint32_t> slots) const;
  const PageRange& drained_range() const { return drain_; }
  // Leaves the extent of `slot` out of windows until clear_avoided().
  void avoid(std::uint32_t slot) { extents_[table_.note(slot).extent].avoided = true; }
  void clear_avoided();

  std::uint64_t arena_bytes() const { return arena_bytes_; }
  // The touched bytes outside of extents.
  std::uint64_t unused_bytes() const;
  struct ClassView {
    std::uint64_t slot_bytes;
    std::uint32_t extents, slots, used;
  };
  std::vector<ClassView> classes() const;
  std::uint32_t class_count() const { return static_cast<std::uint32_t>(classes_.size()); }
  const ArenaMap& map() const { return map_; }

 private:
  static constexpr std::uint32_t kNone = Extent::kNone;
  using Class = SizeClass;

  bool cut(std::uint32_t size_class);
  std::optional<std::uint32_t> new_extent();
  void trim(std::uint32_t extent);
  void trim_all();
  void end_extent(std::uint32_t extent);
  void link(std::uint32_t extent);
  void unlink(std::uint32_t extent);
  static std::uint32_t place_of(const Extent& extent, std::uint64_t offset_bytes);

  std::uint64_t arena_bytes_;
  SlotTable& table_;
  ArenaMap map_;
  std::vector<Extent> extents_;
  std::vector<std::uint32_t> free_extents_;
  std::vector<Class> classes_;
  std::unordered_map<std::uint32_t, std::uint32_t> class_by_pages_;
  std::uint64_t fresh_slots_ = 0;  // of all extents
  std::uint64_t uses_ = 0;
  PageRange drain_;
  std::uint32_t drain_extents_ = 0;
  DrainChooser chooser_;
};

}  // namespace larder::store

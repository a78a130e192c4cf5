// SlotArena: slots of several sizes, from extents. Numbers only; it never sees the memory.
//
// An extent is a run of whole slots of one size, cut from a free span of the touched arena. It is long (a 128th of the arena where
// it fits), because what is lost is less than a slot an extent. One that has no slot in use is a free span again at once, and
// places that an extent never gave out are taken back when another size needs them. When neither helps, the store drains a
// window: neighbouring extents and spans, chosen by drain_window(), whose content it evicts; until it has, nothing is given out
// there. Owned by the store's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sidecar/store/arena_map.h"
#include "sidecar/store/prefetch.h"
#include "sidecar/store/slot_table.h"

namespace larder::store {

class SlotArena {
 public:
  // `table` outlives it. Slot numbers are its entries; a slot's place is another matter.
  SlotArena(std::uint64_t arena_bytes, SlotTable& table);

  // Only memory below it is given out. Never shrinks.
  void set_touched_bytes(std::uint64_t bytes);

  // The number of a slot size; good until another size is asked for here while this one has no extent.
  std::uint32_t size_class(std::uint64_t slot_bytes);
  std::uint32_t class_of(std::uint32_t slot) const { return extents_[table_.note(slot).extent].size_class; }
  // REQUIRES of all that take a class: size_class() gave it.
  std::uint32_t class_slots(std::uint32_t size_class) const { return classes_[size_class].slots; }

  // About how many slots of the size can be given out before something must go: free ones, and what can be cut for them.
  std::uint64_t room(std::uint32_t size_class) const;

  struct Slot {
    std::uint32_t number = kNoSlot;
    std::uint64_t offset_bytes = 0;
  };
  // A slot of the size; its number is kNoSlot if there is no room, or no number.
  Slot take(std::uint32_t size_class);
  // REQUIRES: take() gave it, at this offset, and it is no candidate.
  void give(std::uint32_t slot, std::uint64_t offset_bytes);
  // Places that an earlier life gave out, before anything else is taken: makes one extent of as many of the first as fit. Returns
  // how many that were; 0: no extent is left. REQUIRES: sorted by place, in touched memory, none overlaps another or an extent; the
  // numbers are taken.
  struct Placed {
    std::uint32_t number;
    std::uint32_t start, pages;  // in protocol::kSlotAlignBytes
  };
  std::size_t adopt(std::span<const Placed> slots);
  // Starts bringing what give() will write into cache.
  void prefetch_place(std::uint32_t slot, std::uint64_t offset_bytes) const {
    const Extent& extent = extents_[table_.note(slot).extent];
    store::prefetch(&extent.places[place_of(extent, offset_bytes)]);
  }

  // Candidates are the slots that may be evicted: an extent with others in it is not drained. How lately they were used makes an
  // extent warm. insert counts as one use, and stamps it; one that is used again is erased and inserted.
  void insert_candidate(std::uint32_t slot);
  void erase_candidate(std::uint32_t slot);
  // Uses of any slot since this one was used. REQUIRES: a candidate.
  std::uint64_t age(std::uint32_t slot) const { return uses_ - table_.note(slot).used_stamp; }
  // Stamps given so far.
  std::uint64_t uses() const { return uses_; }

  // ---- Draining: at most one window at a time ----
  struct Window {
    PageRange range;
    double mean_age = 0;  // of its pages; free ones count as `oldest`
  };
  // The coldest window that gives room for a long extent of the size, or at least for one slot. Not in extents of the same size.
  std::optional<Window> coldest_window(std::uint32_t size_class, std::uint64_t oldest) const;
  // Where spans too short for a slot add up to one and no more is evicted for it than lies idle in such spans, once they are over a
  // 400th of the arena.
  std::optional<Window> scattered_window(std::uint32_t size_class) const;
  void drain(const Window& window);
  void stop_draining();
  bool draining() const { return drain_.end != 0; }
  bool draining(std::uint32_t slot) const { return extents_[table_.note(slot).extent].draining; }
  // Slots in the window's extents. Returns how many it wrote.
  std::size_t slots_in(const PageRange& range, std::span<std::uint32_t> slots) const;
  const PageRange& drained_range() const { return drain_; }
  // Leaves these extents out of windows until clear_avoided().
  void avoid(std::uint32_t slot) { extents_[table_.note(slot).extent].avoided = true; }
  void clear_avoided();

  std::uint64_t arena_bytes() const { return arena_bytes_; }
  // Touched and in no extent.
  std::uint64_t unused_bytes() const;
  struct ClassView {
    std::uint64_t slot_bytes;
    std::uint32_t extents, slots, used;
  };
  std::vector<ClassView> classes() const;
  std::uint32_t class_count() const { return static_cast<std::uint32_t>(classes_.size()); }
  const ArenaMap& map() const { return map_; }

 private:
  static constexpr std::uint32_t kNone = 0xffffffff;
  struct Extent {
    std::uint32_t start = 0;       // page
    std::uint32_t slot_pages = 0;  // 0: this number is not in use
    std::uint32_t slots = 0;
    std::uint32_t fresh = 0;  // the first place that was never given out
    std::uint32_t used = 0;
    std::uint32_t candidates = 0;
    std::uint64_t stamps = 0;  // of the candidates, summed up
    std::uint32_t size_class = 0;
    std::uint32_t free_head = kNone;               // kFreeBit and a place, or kNone
    std::uint32_t previous = kNone, next = kNone;  // of the class's extents with room
    bool has_room = false, draining = false, avoided = false;
    std::vector<std::uint32_t> places;  // the slot number there, or kFreeBit and the next free place, or kNone
  };
  struct Class {
    std::uint32_t slot_pages = 0;
    std::uint32_t with_room = kNone;  // first extent
    std::uint32_t extents = 0, slots = 0, used = 0;
  };
  struct Amount {
    std::uint64_t pages = 0, free_pages = 0;
    double age = 0;  // summed up over pages
  };
  struct Segment {
    std::uint32_t start;
    Amount amount;
    bool span, fixed;
  };
  // Segments that stand side by side.
  struct Run {
    std::size_t first = 0, last = 0;
    Amount sum;
  };

  std::uint32_t long_extent_slots(std::uint32_t slot_pages) const;
  bool cut(std::uint32_t size_class);
  std::optional<std::uint32_t> new_extent();
  void trim(std::uint32_t extent);
  void trim_all();
  void end_extent(std::uint32_t extent);
  void link(std::uint32_t extent);
  void unlink(std::uint32_t extent);
  static std::uint32_t place_of(const Extent& extent, std::uint64_t offset_bytes);
  void list_segments(std::uint32_t fixed_class, std::uint64_t oldest) const;
  std::uint64_t lost_pages(const Run& run, std::uint32_t slot_pages) const;
  template <typename Visit>
  void each_run(std::uint64_t Amount::*what, std::uint64_t least, const Visit& visit) const;
  PageRange range_of(const Run& run) const;
  std::optional<Window> coldest(std::uint64_t pages, std::uint32_t slot_pages) const;

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
  mutable std::vector<Segment> segments_;  // kept, so that a choice allocates nothing
};

}  // namespace larder::store

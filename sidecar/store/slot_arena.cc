#include "sidecar/store/slot_arena.h"

#include <algorithm>

#include "shim/protocol/limits.h"

namespace larder::store {
namespace {

constexpr std::uint32_t kFreeBit = 0x80000000;
constexpr std::uint32_t kMaxExtents = 0xffff;  // SlotNote::extent has 16 bits

}  // namespace

SlotArena::SlotArena(std::uint64_t arena_bytes, SlotTable& table)
    : arena_bytes_(arena_bytes),
      table_(table),
      chooser_(arena_bytes, map_, extents_, classes_, uses_) {}

void SlotArena::set_touched_bytes(std::uint64_t bytes) {
  const std::uint64_t pages = std::min(bytes, arena_bytes_) / kPageBytes;
  if (pages > map_.end()) map_.grow(static_cast<std::uint32_t>(pages - map_.end()));
}

std::uint32_t SlotArena::size_class(std::uint64_t slot_bytes) {
  const auto pages = static_cast<std::uint32_t>(slot_bytes / kPageBytes);
  if (const auto known = class_by_pages_.find(pages); known != class_by_pages_.end())
    return known->second;
  // Numbers of sizes are reused, so that sizes of past models do not grow the table.
  auto unused = std::find_if(classes_.begin(), classes_.end(),
                             [](const Class& other) { return other.extents == 0; });
  if (unused == classes_.end()) {
    unused = classes_.emplace(unused);
  } else {
    class_by_pages_.erase(unused->slot_pages);
  }
  unused->slot_pages = pages;
  const auto number = static_cast<std::uint32_t>(unused - classes_.begin());
  class_by_pages_.emplace(pages, number);
  return number;
}

std::uint32_t SlotArena::place_of(const Extent& extent, std::uint64_t offset_bytes) {
  return (static_cast<std::uint32_t>(offset_bytes / kPageBytes) - extent.start) / extent.slot_pages;
}

SlotArena::Slot SlotArena::take(std::uint32_t size_class) {
  const std::uint32_t number = table_.take();
  if (number == kNoSlot) return {};
  if (classes_[size_class].with_room == kNone && !cut(size_class)) {
    table_.give(number);
    return {};
  }
  Class& of_size = classes_[size_class];
  const std::uint32_t id = of_size.with_room;
  Extent& extent = extents_[id];
  std::uint32_t place = extent.fresh;
  // Freed places before fresh ones: pages that were never given out stay in one piece and can be
  // trimmed for another size.
  if (extent.free_head != kNone) {
    place = extent.free_head & ~kFreeBit;
    extent.free_head = extent.places[place];
    if (extent.free_head != kNone) store::prefetch(&extent.places[extent.free_head & ~kFreeBit]);
  } else {
    ++extent.fresh;
    --fresh_slots_;
  }
  extent.places[place] = number;
  ++of_size.used;
  // An extent is in the list of its size exactly while it has room. take() thus never searches.
  if (++extent.used == extent.slots) unlink(id);
  SlotNote& note = table_.note(number);
  note.extent = id & kMaxExtents;
  note.pinned = 0;
  return {number,
          (extent.start + static_cast<std::uint64_t>(place) * extent.slot_pages) * kPageBytes};
}

void SlotArena::give(std::uint32_t slot, std::uint64_t offset_bytes) {
  const std::uint32_t id = table_.note(slot).extent;
  Extent& extent = extents_[id];
  const std::uint32_t place = place_of(extent, offset_bytes);
  extent.places[place] = extent.free_head;
  extent.free_head = place | kFreeBit;
  --extent.used;
  --classes_[extent.size_class].used;
  table_.give(slot);
  if (extent.used == 0) {
    end_extent(id);
  } else if (!extent.has_room && !extent.draining) {
    // An extent that is being drained gets no slot, else the drain would never end.
    link(id);
  }
}

// A new, empty extent. Its number is valid until end_extent().
std::optional<std::uint32_t> SlotArena::new_extent() {
  const auto id = static_cast<std::uint32_t>(extents_.size());
  if (!free_extents_.empty()) {
    const std::uint32_t known = free_extents_.back();
    free_extents_.pop_back();
    extents_[known] = {};
    return known;
  }
  if (id >= kMaxExtents) return std::nullopt;
  extents_.emplace_back();
  return id;
}

std::size_t SlotArena::adopt(std::span<const Placed> slots) {
  const std::uint32_t start = slots.front().start, pages = slots.front().pages;
  const std::uint32_t most = long_extent_slots(arena_bytes_, pages);
  std::size_t count = 1;
  for (; count < slots.size(); ++count) {
    const Placed& next = slots[count];
    // Slots of one size at multiples of the size form one extent. The index does not store the
    // earlier extents.
    if (next.pages != pages || (next.start - start) % pages != 0 ||
        (next.start - start) / pages >= most)
      break;
  }
  const std::optional<std::uint32_t> id = new_extent();
  if (!id) return 0;
  const std::uint32_t size_class = this->size_class(static_cast<std::uint64_t>(pages) * kPageBytes);
  Extent& extent = extents_[*id];
  extent.start = start;
  extent.slot_pages = pages;
  extent.slots = extent.fresh = (slots[count - 1].start - start) / pages + 1;
  extent.used = static_cast<std::uint32_t>(count);
  extent.size_class = size_class;
  extent.places.assign(extent.slots, kNone);
  for (const Placed& slot : slots.first(count)) {
    extent.places[(slot.start - start) / pages] = slot.number;
    table_.note(slot.number).extent = *id & kMaxExtents;
    table_.note(slot.number).pinned = 0;
  }
  for (std::uint32_t place = extent.slots; place-- > 0;) {
    if (extent.places[place] != kNone) continue;
    extent.places[place] = extent.free_head;
    extent.free_head = place | kFreeBit;
  }
  map_.carve(start, extent.slots * pages, *id);
  Class& of_size = classes_[size_class];
  ++of_size.extents;
  of_size.slots += extent.slots;
  of_size.used += extent.used;
  if (extent.used != extent.slots) link(*id);
  return count;
}

bool SlotArena::cut(std::uint32_t size_class) {
  const std::uint32_t pages = classes_[size_class].slot_pages;
  std::optional<std::uint32_t> start = map_.best_fit(pages, drain_);
  // Places that an extent never gave out are memory without a chunk: they go before any eviction.
  if (!start && fresh_slots_ != 0) {
    trim_all();
    start = map_.best_fit(pages, drain_);
  }
  if (!start) return false;
  const std::optional<std::uint32_t> number = new_extent();
  if (!number) return false;
  const std::uint32_t id = *number;
  Extent& extent = extents_[id];
  extent.start = *start;
  extent.slot_pages = pages;
  extent.slots = std::min(map_.pages_at(*start) / pages, long_extent_slots(arena_bytes_, pages));
  extent.size_class = size_class;
  extent.places.assign(extent.slots, kNone);
  map_.cut(*start, extent.slots * pages, id);
  ++classes_[size_class].extents;
  classes_[size_class].slots += extent.slots;
  fresh_slots_ += extent.slots;
  link(id);
  return true;
}

// Cuts the places of an extent that were never given out.
void SlotArena::trim(std::uint32_t id) {
  Extent& extent = extents_[id];
  const std::uint32_t unused = extent.slots - extent.fresh;
  if (unused == 0) return;
  fresh_slots_ -= unused;
  classes_[extent.size_class].slots -= unused;
  extent.slots = extent.fresh;
  map_.shorten(extent.start, extent.slots * extent.slot_pages);
  if (extent.has_room && extent.free_head == kNone) unlink(id);
}

void SlotArena::trim_all() {
  for (std::uint32_t id = 0; id < extents_.size(); ++id)
    if (extents_[id].slot_pages != 0) trim(id);
}

// REQUIRES: no slot of the extent is in use.
void SlotArena::end_extent(std::uint32_t id) {
  Extent& extent = extents_[id];
  if (extent.has_room) unlink(id);
  Class& of_size = classes_[extent.size_class];
  --of_size.extents;
  of_size.slots -= extent.slots;
  fresh_slots_ -= extent.slots - extent.fresh;
  map_.shorten(extent.start, 0);
  // The last extent of the window is gone: the drain has ended.
  if (extent.draining && --drain_extents_ == 0) drain_ = {};
  extent = {};
  free_extents_.push_back(id);
}

void SlotArena::link(std::uint32_t id) {
  Extent& extent = extents_[id];
  Class& of_size = classes_[extent.size_class];
  extent.has_room = true;
  extent.previous = kNone;
  extent.next = of_size.with_room;
  if (extent.next != kNone) extents_[extent.next].previous = id;
  of_size.with_room = id;
}

void SlotArena::unlink(std::uint32_t id) {
  Extent& extent = extents_[id];
  extent.has_room = false;
  (extent.previous == kNone ? classes_[extent.size_class].with_room
                            : extents_[extent.previous].next) = extent.next;
  if (extent.next != kNone) extents_[extent.next].previous = extent.previous;
}

void SlotArena::insert_candidate(std::uint32_t slot) {
  insert_candidate(slot, ++uses_ & kMostStamp);
}

void SlotArena::insert_candidate(std::uint32_t slot, std::uint64_t stamp) {
  SlotNote& note = table_.note(slot);
  Extent& extent = extents_[note.extent];
  note.used_stamp = stamp & kMostStamp;
  // The sum of stamps gives the mean age of an extent in constant time (DrainChooser).
  extent.stamps += uses_ - age(slot);
  ++extent.candidates;
}

void SlotArena::erase_candidate(std::uint32_t slot) {
  Extent& extent = extents_[table_.note(slot).extent];
  extent.stamps -= uses_ - age(slot);
  --extent.candidates;
}

void SlotArena::drain(const Window& window) {
  drain_ = window.range;
  drain_extents_ = 0;
  for (auto piece = map_.pieces().lower_bound(drain_.begin);
       piece != map_.pieces().end() && piece->first < drain_.end; ++piece) {
    if (piece->second.extent == ArenaMap::kNoExtent) continue;
    Extent& extent = extents_[piece->second.extent];
    extent.draining = true;
    ++drain_extents_;
    if (extent.has_room) unlink(piece->second.extent);
  }
  if (drain_extents_ == 0) drain_ = {};
}

void SlotArena::stop_draining() {
  for (std::uint32_t id = 0; id < extents_.size(); ++id) {
    if (!extents_[id].draining) continue;
    extents_[id].draining = false;
    if (extents_[id].used < extents_[id].slots) link(id);
  }
  drain_ = {};
  drain_extents_ = 0;
}

std::size_t SlotArena::slots_in(const PageRange& range, std::span<std::uint32_t> slots) const {
  std::size_t found = 0;
  for (auto piece = map_.pieces().lower_bound(range.begin);
       piece != map_.pieces().end() && piece->first < range.end; ++piece) {
    if (piece->second.extent == ArenaMap::kNoExtent) continue;
    for (const std::uint32_t value : extents_[piece->second.extent].places) {
      if (found == slots.size()) return found;
      if ((value & kFreeBit) == 0) slots[found++] = value;
    }
  }
  return found;
}

void SlotArena::clear_avoided() {
  for (Extent& extent : extents_) extent.avoided = false;
}

std::uint64_t SlotArena::room(std::uint32_t size_class) const {
  const Class& of_size = classes_[size_class];
  std::uint64_t pages = arena_bytes_ / kPageBytes - map_.end();  // not touched yet
  if (map_.best_fit(of_size.slot_pages, drain_)) pages += map_.free_pages();
  return of_size.slots - of_size.used + pages / of_size.slot_pages;
}

std::uint64_t SlotArena::unused_bytes() const {
  return map_.free_pages() * kPageBytes;
}

std::vector<SlotArena::ClassView> SlotArena::classes() const {
  std::vector<ClassView> views;
  for (const Class& of_size : classes_)
    if (of_size.extents != 0)
      views.push_back(
          {of_size.slot_pages * kPageBytes, of_size.extents, of_size.slots, of_size.used});
  return views;
}

}  // namespace larder::store

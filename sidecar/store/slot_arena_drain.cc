// Which part of the arena is emptied when a size needs room that only others have.
#include <algorithm>

#include "sidecar/store/slot_arena.h"

namespace larder::store {
namespace {
// Spans that no slot fits into are gathered once they are over one part in so many of the arena, and only where no more is evicted for
// it than lies idle in them, or one slot: while it is done, twice of what was idle is empty at most.
constexpr std::uint64_t kScatteredShare = 400;
// Room that would be lost in a window makes it look younger: by so many times its share, and down to a part of its age.
constexpr double kLossWeight = 40;
constexpr double kLeastScore = 0.25;
}  // namespace

// Into segments_: the arena by address. Extents that must not be drained are fixed, as are all of `fixed_class`.
void SlotArena::list_segments(std::uint32_t fixed_class, std::uint64_t oldest) const {
  segments_.clear();
  for (const auto& [start, piece] : map_.pieces()) {
    if (piece.extent == ArenaMap::kNoExtent) {
      segments_.push_back({start, piece.pages, piece.pages, static_cast<double>(oldest) * piece.pages, true, false});
      continue;
    }
    const Extent& extent = extents_[piece.extent];
    const bool fixed = extent.used != extent.candidates || extent.avoided || extent.size_class == fixed_class;
    const std::uint32_t free_pages = (extent.slots - extent.used) * extent.slot_pages;
    const double ages = static_cast<double>(uses_) * extent.candidates - static_cast<double>(extent.stamps);
    segments_.push_back(
        {start, piece.pages, free_pages, ages * extent.slot_pages + static_cast<double>(oldest) * free_pages, false, fixed});
  }
}

// Pages of a window, free neighbours included, that neither this size nor the smallest one in use would get.
std::uint64_t SlotArena::lost_pages(std::size_t first, std::size_t last, std::uint64_t pages, std::uint32_t slot_pages) const {
  if (first > 0 && segments_[first - 1].span) pages += segments_[first - 1].pages;
  if (last + 1 < segments_.size() && segments_[last + 1].span) pages += segments_[last + 1].pages;
  std::uint32_t smallest = slot_pages;
  for (const Class& of_size : classes_)
    if (of_size.extents != 0) smallest = std::min(smallest, of_size.slot_pages);
  return pages % slot_pages % smallest;
}

// The run of segments of at least so many pages that is oldest on average and loses little; for each last segment the shortest one.
std::optional<SlotArena::Window> SlotArena::coldest(std::uint64_t pages, std::uint32_t slot_pages) const {
  std::optional<Window> best;
  double best_score = 0;
  std::uint64_t sum = 0;
  double age = 0;
  std::size_t first = 0;
  for (std::size_t last = 0; last < segments_.size(); ++last) {
    const Segment& segment = segments_[last];
    if (segment.fixed) {
      sum = 0;
      age = 0;
      first = last + 1;
      continue;
    }
    sum += segment.pages;
    age += segment.age;
    while (sum - segments_[first].pages >= pages) {
      sum -= segments_[first].pages;
      age -= segments_[first].age;
      ++first;
    }
    if (sum < pages) continue;
    const double mean = age / static_cast<double>(sum);
    const auto lost = static_cast<double>(lost_pages(first, last, sum, slot_pages));
    const double score = mean * std::max(kLeastScore, 1 - kLossWeight * lost / static_cast<double>(sum));
    if (best && score <= best_score) continue;
    best_score = score;
    best = Window{{segments_[first].start, segment.start + segment.pages}, mean};
  }
  return best;
}

std::optional<SlotArena::Window> SlotArena::coldest_window(std::uint32_t size_class, std::uint64_t oldest) const {
  const std::uint32_t slot_pages = classes_[size_class].slot_pages;
  list_segments(size_class, oldest);
  const std::optional<Window> window =
      coldest(static_cast<std::uint64_t>(long_extent_slots(slot_pages)) * slot_pages, slot_pages);
  return window ? window : coldest(slot_pages, slot_pages);
}

std::optional<SlotArena::Window> SlotArena::scattered_window(std::uint32_t size_class) const {
  const std::uint64_t slot_pages = classes_[size_class].slot_pages;
  if (unused_bytes() < arena_bytes_ / kScatteredShare || map_.free_pages() < slot_pages) return std::nullopt;
  list_segments(kNone, 0);
  std::optional<Window> best;
  std::uint64_t best_price = std::max<std::uint64_t>(slot_pages, map_.free_pages());
  std::uint64_t free = 0, sum = 0;
  std::size_t first = 0;
  for (std::size_t last = 0; last < segments_.size(); ++last) {
    const Segment& segment = segments_[last];
    if (segment.fixed) {
      free = sum = 0;
      first = last + 1;
      continue;
    }
    free += segment.free_pages;
    sum += segment.pages;
    while (free - segments_[first].free_pages >= slot_pages) {
      free -= segments_[first].free_pages;
      sum -= segments_[first].pages;
      ++first;
    }
    if (free < slot_pages || sum - free > best_price) continue;
    best_price = sum - free;
    best = Window{{segments_[first].start, segment.start + segment.pages}, 0};
  }
  return best;
}

void SlotArena::drain(const Window& window) {
  drain_ = window.range;
  drain_extents_ = 0;
  for (auto piece = map_.pieces().lower_bound(drain_.begin); piece != map_.pieces().end() && piece->first < drain_.end; ++piece) {
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
  for (auto piece = map_.pieces().lower_bound(range.begin); piece != map_.pieces().end() && piece->first < range.end; ++piece) {
    if (piece->second.extent == ArenaMap::kNoExtent) continue;
    for (const std::uint32_t value : extents_[piece->second.extent].places) {
      if (found == slots.size()) return found;
      if ((value & 0x80000000) == 0) slots[found++] = value;
    }
  }
  return found;
}

void SlotArena::clear_avoided() {
  for (Extent& extent : extents_) extent.avoided = false;
}

}  // namespace larder::store

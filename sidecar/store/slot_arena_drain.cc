// Chooses the part of the arena to empty when a size needs room that only other sizes have.
#include <algorithm>

#include "sidecar/store/slot_arena.h"

namespace larder::store {
namespace {
// Spans that are too short for a slot are joined once they exceed this share of the arena. The
// eviction for it may cost as many pages as lie idle in such spans, or one slot: during the drain
// at most twice the idle pages are empty.
constexpr std::uint64_t kScatteredShare = 400;
// Pages that a window would lose make the window look younger: by kLossWeight times their share,
// down to kLeastScore of its age.
constexpr double kLossWeight = 40;
constexpr double kLeastScore = 0.25;
}  // namespace

// Lists the arena by address in segments_. Extents that must not be drained are fixed, and so are
// all of `fixed_class`.
void SlotArena::list_segments(std::uint32_t fixed_class, std::uint64_t oldest) const {
  segments_.clear();
  for (const auto& [start, piece] : map_.pieces()) {
    if (piece.extent == ArenaMap::kNoExtent) {
      segments_.push_back({start, {piece.pages, piece.pages, static_cast<double>(oldest) * piece.pages}, true, false});
      continue;
    }
    const Extent& extent = extents_[piece.extent];
    const bool fixed = extent.used != extent.candidates || extent.avoided || extent.size_class == fixed_class;
    const std::uint32_t free_pages = (extent.slots - extent.used) * extent.slot_pages;
    const double ages = static_cast<double>(uses_) * extent.candidates - static_cast<double>(extent.stamps);
    const double age = ages * extent.slot_pages + static_cast<double>(oldest) * free_pages;
    segments_.push_back({start, {piece.pages, free_pages, age}, false, fixed});
  }
}

// The pages of a window, free neighbours included, that neither this size nor the smallest size in
// use could use.
std::uint64_t SlotArena::lost_pages(const Run& run, std::uint32_t slot_pages) const {
  std::uint64_t pages = run.sum.pages;
  if (run.first > 0 && segments_[run.first - 1].span) pages += segments_[run.first - 1].amount.pages;
  if (run.last + 1 < segments_.size() && segments_[run.last + 1].span) pages += segments_[run.last + 1].amount.pages;
  std::uint32_t smallest = slot_pages;
  for (const Class& of_size : classes_)
    if (of_size.extents != 0) smallest = std::min(smallest, of_size.slot_pages);
  return pages % slot_pages % smallest;
}

// For each segment, visits the shortest run without fixed segments that ends there and has at least
// `least` of `what`.
template <typename Visit>
void SlotArena::each_run(std::uint64_t Amount::*what, std::uint64_t least, const Visit& visit) const {
  Run run;
  for (; run.last < segments_.size(); ++run.last) {
    const Segment& segment = segments_[run.last];
    if (segment.fixed) {
      run = {run.last + 1, run.last, {}};
      continue;
    }
    run.sum.pages += segment.amount.pages;
    run.sum.free_pages += segment.amount.free_pages;
    run.sum.age += segment.amount.age;
    while (run.sum.*what - segments_[run.first].amount.*what >= least) {
      const Amount& gone = segments_[run.first++].amount;
      run.sum.pages -= gone.pages;
      run.sum.free_pages -= gone.free_pages;
      run.sum.age -= gone.age;
    }
    if (run.sum.*what >= least) visit(run);
  }
}

PageRange SlotArena::range_of(const Run& run) const {
  const Segment& last = segments_[run.last];
  return {segments_[run.first].start, last.start + static_cast<std::uint32_t>(last.amount.pages)};
}

// The run of at least `pages` with the best score: old on average, and little loss.
std::optional<SlotArena::Window> SlotArena::coldest(std::uint64_t pages, std::uint32_t slot_pages) const {
  std::optional<Window> best;
  double best_score = 0;
  each_run(&Amount::pages, pages, [&](const Run& run) {
    const auto all = static_cast<double>(run.sum.pages);
    const double mean = run.sum.age / all;
    const double score = mean * std::max(kLeastScore, 1 - kLossWeight * static_cast<double>(lost_pages(run, slot_pages)) / all);
    if (best && score <= best_score) return;
    best_score = score;
    best = Window{range_of(run), mean};
  });
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
  each_run(&Amount::free_pages, slot_pages, [&](const Run& run) {
    const std::uint64_t price = run.sum.pages - run.sum.free_pages;
    if (price > best_price) return;
    best_price = price;
    best = Window{range_of(run), 0};
  });
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

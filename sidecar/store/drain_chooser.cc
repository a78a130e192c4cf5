#include "sidecar/store/drain_chooser.h"

#include <algorithm>

#include "shim/protocol/limits.h"

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
void DrainChooser::list_segments(std::uint32_t fixed_class, std::uint64_t oldest) const {
  segments_.clear();
  for (const auto& [start, piece] : map_.pieces()) {
    // A free span counts as old as the coldest chunk: taking it evicts no chunk.
    if (piece.extent == ArenaMap::kNoExtent) {
      segments_.push_back({start,
                           {piece.pages, piece.pages, static_cast<double>(oldest) * piece.pages},
                           true,
                           false});
      continue;
    }
    const Extent& extent = extents_[piece.extent];
    const bool fixed =
        // A slot in use that is no candidate is granted, pinned or held back: an extent with one
        // cannot become empty.
        extent.used != extent.candidates || extent.avoided || extent.size_class == fixed_class;
    const std::uint32_t free_pages = (extent.slots - extent.used) * extent.slot_pages;
    const double ages =
        static_cast<double>(uses_) * extent.candidates - static_cast<double>(extent.stamps);
    const double age = ages * extent.slot_pages + static_cast<double>(oldest) * free_pages;
    segments_.push_back({start, {piece.pages, free_pages, age}, false, fixed});
  }
}

// The pages of a window, free neighbours included, that neither this size nor the smallest size in
// use could use.
std::uint64_t DrainChooser::lost_pages(const Run& run, std::uint32_t slot_pages) const {
  std::uint64_t pages = run.sum.pages;
  if (run.first > 0 && segments_[run.first - 1].span)
    pages += segments_[run.first - 1].amount.pages;
  if (run.last + 1 < segments_.size() && segments_[run.last + 1].span)
    pages += segments_[run.last + 1].amount.pages;
  std::uint32_t smallest = slot_pages;
  for (const SizeClass& of_size : classes_)
    if (of_size.extents != 0) smallest = std::min(smallest, of_size.slot_pages);
  return pages % slot_pages % smallest;
}

// For each segment, visits the shortest run without fixed segments that ends there and has at least
// `least` of `what`.
template <typename Visit>
void DrainChooser::each_run(std::uint64_t Amount::*what, std::uint64_t least,
                            const Visit& visit) const {
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
    // Two ends that only move up visit all runs in linear time, whatever the number of extents.
    while (run.sum.*what - segments_[run.first].amount.*what >= least) {
      const Amount& gone = segments_[run.first++].amount;
      run.sum.pages -= gone.pages;
      run.sum.free_pages -= gone.free_pages;
      run.sum.age -= gone.age;
    }
    if (run.sum.*what >= least) visit(run);
  }
}

PageRange DrainChooser::range_of(const Run& run) const {
  const Segment& last = segments_[run.last];
  return {segments_[run.first].start, last.start + static_cast<std::uint32_t>(last.amount.pages)};
}

// The run of at least `pages` with the best score: old on average, and little loss.
std::optional<DrainWindow> DrainChooser::coldest(std::uint64_t pages,
                                                 std::uint32_t slot_pages) const {
  std::optional<DrainWindow> best;
  double best_score = 0;
  each_run(&Amount::pages, pages, [&](const Run& run) {
    const auto all = static_cast<double>(run.sum.pages);
    const double mean = run.sum.age / all;
    const double score =
        mean * std::max(kLeastScore,
                        1 - kLossWeight * static_cast<double>(lost_pages(run, slot_pages)) / all);
    if (best && score <= best_score) return;
    best_score = score;
    best = DrainWindow{range_of(run), mean};
  });
  return best;
}

std::optional<DrainWindow> DrainChooser::coldest_window(std::uint32_t size_class,
                                                        std::uint64_t oldest) const {
  const std::uint32_t slot_pages = classes_[size_class].slot_pages;
  list_segments(size_class, oldest);
  const std::optional<DrainWindow> window =
      coldest(static_cast<std::uint64_t>(long_extent_slots(arena_bytes_, slot_pages)) * slot_pages,
              slot_pages);
  return window ? window : coldest(slot_pages, slot_pages);
}

std::optional<DrainWindow> DrainChooser::scattered_window(std::uint32_t size_class) const {
  const std::uint64_t slot_pages = classes_[size_class].slot_pages;
  if (map_.free_pages() * protocol::kSlotAlignBytes < arena_bytes_ / kScatteredShare ||
      map_.free_pages() < slot_pages)
    return std::nullopt;
  list_segments(Extent::kNone, 0);
  std::optional<DrainWindow> best;
  std::uint64_t best_price = std::max<std::uint64_t>(slot_pages, map_.free_pages());
  each_run(&Amount::free_pages, slot_pages, [&](const Run& run) {
    const std::uint64_t price = run.sum.pages - run.sum.free_pages;
    if (price > best_price) return;
    best_price = price;
    best = DrainWindow{range_of(run), 0};
  });
  return best;
}

}  // namespace larder::store

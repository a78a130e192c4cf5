// DrainChooser: chooses the part of the arena to empty when a size needs room that only other sizes
// have.
//
// Reads the map, the extents and the sizes of a SlotArena, which owns the chooser. Owned by the
// thread of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sidecar/store/arena_map.h"
#include "sidecar/store/slot_extent.h"

namespace larder::store {

struct DrainWindow {
  PageRange range;
  double mean_age = 0;  // of its pages; free pages count as `oldest`
};

class DrainChooser {
 public:
  // `uses`: the stamp of the newest use of a slot. All references outlive this object.
  DrainChooser(std::uint64_t arena_bytes, const ArenaMap& map, const std::vector<Extent>& extents,
               const std::vector<SizeClass>& classes, const std::uint64_t& uses)
      : arena_bytes_(arena_bytes), map_(map), extents_(extents), classes_(classes), uses_(uses) {}
  DrainChooser(const DrainChooser&) = delete;

  // The coldest window with room for a long extent of the size, or at least for one slot. Excludes
  // extents of the size.
  std::optional<DrainWindow> coldest_window(std::uint32_t size_class, std::uint64_t oldest) const;
  // A window in which spans that are too short for a slot add up to a slot. Only once such spans
  // exceed a 400th of the arena, and only if the eviction costs no more than the pages that lie
  // idle in such spans.
  std::optional<DrainWindow> scattered_window(std::uint32_t size_class) const;

 private:
  struct Amount {
    std::uint64_t pages = 0, free_pages = 0;
    double age = 0;  // the sum over pages
  };
  struct Segment {
    std::uint32_t start;
    Amount amount;
    bool span, fixed;
  };
  // A run of neighbouring segments.
  struct Run {
    std::size_t first = 0, last = 0;
    Amount sum;
  };

  void list_segments(std::uint32_t fixed_class, std::uint64_t oldest) const;
  std::uint64_t lost_pages(const Run& run, std::uint32_t slot_pages) const;
  template <typename Visit>
  void each_run(std::uint64_t Amount::*what, std::uint64_t least, const Visit& visit) const;
  PageRange range_of(const Run& run) const;
  std::optional<DrainWindow> coldest(std::uint64_t pages, std::uint32_t slot_pages) const;

  std::uint64_t arena_bytes_;
  const ArenaMap& map_;
  const std::vector<Extent>& extents_;
  const std::vector<SizeClass>& classes_;
  const std::uint64_t& uses_;
  mutable std::vector<Segment> segments_;  // reused, so that a choice allocates no memory
};

}  // namespace larder::store

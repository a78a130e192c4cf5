// RegionTable: the state of each region, and the choice of the region to open next. Pure;
// thread-compatible.
//
//   free     no record
//   opening  the new trailer is being written and synced
//   ready    opened ahead, so that appends never wait: at most one region
//   active   appends go here
//   closing  appends are in flight; then a sync, then the footer
//   closed   read only, until the region is the oldest and is opened again
#pragma once

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "sidecar/tiers/disk/format.h"

namespace larder::disk {

enum class RegionState : std::uint8_t { kFree, kOpening, kReady, kActive, kClosing, kClosed };

struct Region {
  RegionState state = RegionState::kFree;
  std::uint64_t sequence = 0;  // of the trailer in the file; 0 without a trailer
  std::uint32_t next_block = 0;
  std::uint32_t writes = 0;     // in flight
  std::uint32_t reads = 0;      // in flight; the region is not opened before they end
  std::uint32_t failures = 0;   // of opening
  bool broken = false;          // a write failed: no further appends
  std::vector<Record> records;  // successful appends; emptied once the footer is written
};

class RegionTable {
 public:
  RegionTable(std::uint32_t regions, std::uint32_t region_blocks)
      : regions_(regions), region_blocks_(region_blocks) {}

  std::uint32_t count() const { return static_cast<std::uint32_t>(regions_.size()); }
  std::uint32_t region_blocks() const { return region_blocks_; }
  Region& operator[](std::uint32_t region) { return regions_[region]; }
  const Region& operator[](std::uint32_t region) const { return regions_[region]; }

  std::optional<std::uint32_t> in_state(RegionState state) const {
    for (std::uint32_t i = 0; i < count(); ++i)
      if (regions_[i].state == state) return i;
    return std::nullopt;
  }
  // The region to open next, without running reads: fewest failures first, then a free region, then
  // the oldest closed one.
  std::optional<std::uint32_t> next_victim() const {
    std::optional<std::uint32_t> best;
    for (std::uint32_t i = 0; i < count(); ++i) {
      const Region& region = regions_[i];
      if (region.reads != 0 ||
          (region.state != RegionState::kFree && region.state != RegionState::kClosed))
        continue;
      if (!best || rank(region) < rank(regions_[*best])) best = i;
    }
    return best;
  }
  // Whether the region has room for a record of so many blocks, and for the footer.
  bool fits(const Region& region, std::uint32_t blocks) const {
    return std::uint64_t{region.next_block} + blocks +
               footer_blocks(region.records.size() + region.writes + 1) <=
           region_blocks_;
  }
  // The lowest sequence in the file. Includes free regions: the next larderd finds their trailers
  // too.
  std::uint64_t oldest_sequence() const {
    std::uint64_t oldest = UINT64_MAX;
    for (const Region& region : regions_)
      if (region.sequence != 0 && region.sequence < oldest) oldest = region.sequence;
    return oldest;
  }
  std::uint64_t take_sequence() { return next_sequence_++; }
  std::uint64_t next_sequence() const { return next_sequence_; }
  // A damaged trailer may have a higher sequence than all others, by at most the number of regions.
  void saw_sequence(std::uint64_t sequence) {
    if (sequence + count() >= next_sequence_) next_sequence_ = sequence + count() + 1;
  }

 private:
  static std::tuple<std::uint32_t, bool, std::uint64_t> rank(const Region& region) {
    return {region.failures, region.state == RegionState::kClosed, region.sequence};
  }

  std::vector<Region> regions_;
  std::uint32_t region_blocks_;
  std::uint64_t next_sequence_ = 1;
};

}  // namespace larder::disk

// DeviceRange: bytes of host memory as one device names them. They may lie in several registrations, which no single copy may leave. A plain value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cuda/driver_abi.h"

namespace larder::copy::cuda {

class DeviceRange {
 public:
  // Of one registration.
  struct Run {
    DevicePtr start;
    std::size_t bytes;
  };
  DeviceRange() = default;  // of no bytes: they are not registered
  DeviceRange(DevicePtr start, std::size_t bytes) : runs_{{start, bytes}} {}

  bool empty() const { return runs_.empty(); }
  void add(DevicePtr start, std::size_t bytes) { runs_.push_back({start, bytes}); }
  // A kernel needs one address for all of it, and may go from one registration to the next. 0: the device has another order of them.
  DevicePtr in_one_piece() const {
    for (std::size_t i = 1; i < runs_.size(); ++i)
      if (runs_[i - 1].start + runs_[i - 1].bytes != runs_[i].start) return 0;
    return runs_.empty() ? 0 : runs_.front().start;
  }
  // Calls part(start, bytes) for `count` bytes from `offset` on: once for each registration that they touch. REQUIRES: they are in the range.
  template <typename Part>
  void for_each(std::size_t offset, std::size_t count, Part part) const {
    for (const Run& run : runs_) {
      if (offset >= run.bytes) {
        offset -= run.bytes;
        continue;
      }
      const std::size_t here = std::min(count, run.bytes - offset);
      part(run.start + offset, here);
      count -= here;
      offset = 0;
      if (count == 0) return;
    }
  }

 private:
  std::vector<Run> runs_;
};

}  // namespace larder::copy::cuda

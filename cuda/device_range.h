// DeviceRange: bytes of host memory under their addresses on one device. Copies name registered
// memory by the device's address, because a para-virtual GPU needs that address. The range may span
// several registrations, and no single copy may cross from one into the next. A plain value.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cuda/driver_abi.h"

namespace larder::copy::cuda {

class DeviceRange {
 public:
  // A run within one registration.
  struct Run {
    DevicePtr start;
    std::size_t bytes;
  };
  DeviceRange() = default;  // empty: the bytes are not registered
  DeviceRange(DevicePtr start, std::size_t bytes) : runs_{{start, bytes}} {}

  bool empty() const { return runs_.empty(); }
  void add(DevicePtr start, std::size_t bytes) { runs_.push_back({start, bytes}); }
  // One address for the whole range, as a kernel needs. A kernel may cross from one registration to
  // the next. 0: the device has the registrations in another order.
  DevicePtr in_one_piece() const {
    for (std::size_t i = 1; i < runs_.size(); ++i)
      if (runs_[i - 1].start + runs_[i - 1].bytes != runs_[i].start)
        return 0;  // mutation: slices-apart
    return runs_.empty() ? 0 : runs_.front().start;
  }
  // Calls part(start, bytes) for `count` bytes from `offset` on, once for each touched
  // registration. Example: a piece across the border of two slices is two copies. REQUIRES: the
  // bytes are in the range.
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

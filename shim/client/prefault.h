// Prefault: makes the pages of granted slots present in this process's mapping of the arena, many a call, before a copy would stop at
// each of them. A store into pages that this process never wrote costs five times one into pages that it did.
//
// A slot is granted only after larderd has touched it: nothing is allocated, and nothing charged, on this side. Thread-compatible;
// the control thread's, which has nothing to do while an engine computes. Failure costs time only.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace larder::client {

class Prefault {
 public:
  static constexpr std::size_t kGranuleBytes = 64 * 1024;

  explicit Prefault(std::size_t arena_bytes) : present_(arena_bytes / kGranuleBytes) {}

  // `slot` begins at offset_bytes of the arena. Slots without a whole granule are left alone. Returns whether the kernel was asked.
  bool ensure(std::uint64_t offset_bytes, std::span<std::byte> slot) {
    const std::size_t first = (offset_bytes + kGranuleBytes - 1) / kGranuleBytes;
    const std::size_t last = (offset_bytes + slot.size()) / kGranuleBytes;
    bool missing = false;
    for (std::size_t granule = first; granule < last; ++granule) {
      missing = missing || !present_[granule];
      present_[granule] = true;
    }
#ifdef MADV_POPULATE_WRITE
    if (missing) ::madvise(slot.data(), slot.size(), MADV_POPULATE_WRITE);  // not before Linux 5.14: the copy faults by itself
#endif
    return missing;
  }

 private:
  std::vector<bool> present_;  // asked for once already; by granule
};

}  // namespace larder::client

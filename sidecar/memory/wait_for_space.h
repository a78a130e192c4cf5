// Waits for memory that engines of an earlier larderd are about to free.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "sidecar/base/log.h"

namespace larder::memory {

// `free` returns the free bytes now; `total`: the largest possible number of free bytes. Returns
// the free bytes: as soon as `needed` bytes are free, at once if `total` is too small, after 2 s at
// most. Engines of an earlier larderd map its unlinked arena until they see the dead index, for
// half a second at most; the unlinked file takes room until then.
template <typename Free>
std::uint64_t wait_for_space(std::uint64_t needed, std::uint64_t total, const Free& free) {
  constexpr int kLooks = 40;
  constexpr std::chrono::milliseconds kBetweenLooks{50};
  std::uint64_t now = free();
  for (int look = 0; look < kLooks && now < needed && needed <= total; ++look) {
    if (look == 0)
      base::log_info("waiting for room: engines may still map the arena of an earlier larderd");
    std::this_thread::sleep_for(kBetweenLooks);
    now = free();
  }
  return now;
}

}  // namespace larder::memory

// Waiting for memory that an earlier larderd's engines are about to give back.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "sidecar/base/log.h"

namespace larder::memory {

// `free` tells what there is now, `total` what there can ever be. Returns what is free at last: as soon as it is enough, at once if
// it can never be, after 2 s at most. Engines of an earlier life map its arena until they see that it is dead, within half a
// second: an unlinked file that takes room.
template <typename Free>
std::uint64_t wait_for_space(std::uint64_t needed, std::uint64_t total, const Free& free) {
  constexpr int kLooks = 40;
  constexpr std::chrono::milliseconds kBetweenLooks{50};
  std::uint64_t now = free();
  for (int look = 0; look < kLooks && now < needed && needed <= total; ++look) {
    if (look == 0) base::log_info("waiting for room: engines may still map the arena of an earlier larderd");
    std::this_thread::sleep_for(kBetweenLooks);
    now = free();
  }
  return now;
}

}  // namespace larder::memory

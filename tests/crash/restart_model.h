// RestartModel: one engine's record of its chunks, in memory shared with the test: the chunks and
// contents that larderd must have after a restart.
//
// Without a disk, an acknowledged chunk (one that the engine has seen in the index) stays until it
// is evicted by hand. Over a disk a chunk may leave memory at any time, so the chunks in the index
// at larderd's death must be in memory afterwards. There the content of a key is always the same,
// as with tokens, until the engine drops its namespace; afterwards that content is wrong.
//
// Only the engine's process writes, except for the fields of the test.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "tests/crash/chunk_pages.h"

namespace larder::crash {

struct RestartModel {
  static constexpr std::uint64_t kKeys = 600;

  static RestartModel& make();

  // Written by the test before the fork.
  bool below = false;       // larderd has a disk; the engine's namespace is its own
  std::uint64_t space = 0;  // see Engine
  client::Group group = ChunkPages::kGroup;

  // Rounds, written by the test: larderd is dead, another one runs, every engine has checked its
  // chunks.
  std::atomic<std::uint64_t> died{0}, started{0}, go_on{0};
  // Rounds, written by the engine: the state at the death is recorded, memory is checked, the disk
  // is checked.
  std::atomic<std::uint64_t> noted{0}, checked{0}, probed{0};
  std::atomic<bool> attached{false};  // to the first larderd
  std::atomic<bool> stop{false};      // written by the test

  // Over all rounds: acknowledged chunks at larderd's death, and those that were back; the same for
  // a sample of the chunks on the disk alone, and those that the disk no longer has, as larderd
  // reports.
  std::atomic<std::uint64_t> acknowledged{0}, back{0}, below_before{0}, below_back{0},
      below_gone{0};
  // Chunks stored; loaded and verified; fetched from the disk before a load; drops.
  std::atomic<std::uint64_t> stored{0}, loads{0}, fetched{0}, drops{0};
};

// Stores, loads and evicts its own keys until model.stop, beside a forked child; over a disk also
// drops, fetches, pins and prefetches. Keys derive from `engine`: every engine, also a later one,
// needs a number of its own. Exit status: 0; 1, no larderd; 3, a wrong byte (or another content
// than that of the last acknowledged store); 4, an evicted or dropped chunk is there.
int live_by_model(const std::string& socket, std::uint64_t engine, RestartModel& model);

}  // namespace larder::crash

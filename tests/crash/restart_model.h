// RestartModel: what one engine knows of its chunks, in memory that it shares with the test: what larderd must still have after a
// restart, and with which content.
//
// Without a disk a chunk that was acknowledged (seen in the index) stays until it is evicted by hand. Over a disk it may go at any
// time: then what the index shows in the moment of larderd's death must be in memory afterwards. A key's content is always the same
// there, as with tokens, until the engine drops its namespace: from then on that content is a wrong one.
//
// Written by the engine's process alone, but for what the test is said to write.
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

  // By the test, before the engine is forked.
  bool below = false;       // larderd has a disk; the engine's namespace is its own
  std::uint64_t space = 0;  // see Engine
  client::Group group = ChunkPages::kGroup;

  // Rounds, by the test: larderd is dead, another one runs, every engine has looked through.
  std::atomic<std::uint64_t> died{0}, started{0}, go_on{0};
  // By the engine: it knows what it had, it has looked through memory, and below it.
  std::atomic<std::uint64_t> noted{0}, checked{0}, probed{0};
  std::atomic<bool> attached{false};  // the engine, to the first larderd
  std::atomic<bool> stop{false};      // by the test

  // Chunks that were acknowledged when larderd died, and those of them that were there afterwards, over all rounds; the same of a
  // sample of those that were only below memory, and those of them that are not there any more, by what larderd tells.
  std::atomic<std::uint64_t> acknowledged{0}, back{0}, below_before{0}, below_back{0}, below_gone{0};
  // Chunks stored; loaded and verified; brought up from below before that; drops.
  std::atomic<std::uint64_t> stored{0}, loads{0}, fetched{0}, drops{0};
};

// Stores, loads and evicts keys of its own, and over a disk drops, fetches, pins and prefetches them, with a forked child beside it, until
// model.stop. Keys derive from `engine`: no other one, also of earlier, may have its number. Exit status: 0, 1 no larderd, 3 a wrong
// byte (another content than that of the last acknowledged store counts as one), 4 something is there that was evicted or dropped.
int live_by_model(const std::string& socket, std::uint64_t engine, RestartModel& model);

}  // namespace larder::crash

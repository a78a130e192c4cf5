// RestartModel: what one engine knows of its chunks, in memory that it shares with the test: what larderd must still have after a
// restart, and with which content.
//
// Written by the engine's process alone, but for `asked` and `stop`.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace larder::crash {

struct RestartModel {
  static constexpr std::uint64_t kKeys = 600;

  static RestartModel& make();

  std::atomic<std::uint64_t> asked{0}, checked{0};  // rounds: after a restart all is looked through
  std::atomic<bool> attached{false};                // the engine, to the first larderd
  std::atomic<bool> stop{false};
  // Chunks that were acknowledged when larderd died, and those of them that were there afterwards, over all rounds.
  std::atomic<std::uint64_t> acknowledged{0}, back{0}, loads{0};
};

// Stores, loads and evicts keys of its own, with a forked child beside it, until model.stop. Exit status: 0, 1 no larderd, 3 a wrong
// byte (another content than that of the last acknowledged store counts as one), 4 something is there that was evicted.
int live_by_model(const std::string& socket, std::uint64_t engine, RestartModel& model);

}  // namespace larder::crash

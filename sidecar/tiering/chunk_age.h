// ChunkAge: an upper bound of the age of a chunk, from its generation.
//
// Generations only grow, so a mark now and then gives the age of every chunk of this run, to one
// part in kMarks of the longest age of interest. Each run begins with a generation from the time of
// day (kNsAGeneration), which gives the start of an earlier run. Owned by the thread of the loop.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>

#include "sidecar/base/clock.h"

namespace larder::tiering {

// A run begins at the generation clock / kNsAGeneration, or above every earlier generation. Grants
// are slower than that.
inline constexpr std::uint64_t kNsAGeneration = 16;

class ChunkAge {
 public:
  // Ages above `longest_s` are not distinguished; 0: ages are never asked for.
  ChunkAge(std::uint32_t longest_s, const base::Clock& clock)
      : longest_ms_(std::uint64_t{longest_s} * 1000), clock_(clock) {}

  // Called at the start and at each tick with the newest generation so far.
  void tick(std::uint64_t newest_generation) {
    if (longest_ms_ == 0) return;
    const std::uint64_t now_ms = clock_.now_ms();
    if (!marks_.empty() && now_ms - marks_.back().at_ms < std::max(kLeastMs, longest_ms_ / kMarks))
      return;
    marks_.push_back({now_ms, newest_generation});
    while (now_ms - marks_.front().at_ms > 2 * longest_ms_) marks_.pop_front();
  }

  // The age in seconds, or more.
  std::uint64_t age_s(std::uint64_t generation) const {
    const auto after = std::ranges::lower_bound(marks_, generation, {}, &Mark::generation);
    if (after != marks_.begin()) return (clock_.now_ms() - std::prev(after)->at_ms) / 1000;
    const std::uint64_t now_ns = unix_ns(), born_ns = generation * kNsAGeneration;
    return (now_ns - std::min(now_ns, born_ns)) / 1'000'000'000;
  }

  static std::uint64_t unix_ns() {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::system_clock::now().time_since_epoch())
                                          .count());
  }

 private:
  static constexpr std::uint64_t kMarks = 256, kLeastMs = 1000;
  struct Mark {
    std::uint64_t at_ms;
    std::uint64_t generation;
  };
  const std::uint64_t longest_ms_;
  const base::Clock& clock_;
  std::deque<Mark> marks_;  // oldest first; at most twice kMarks
};

}  // namespace larder::tiering

// ChunkAge: how long ago chunks were stored at the most, by their generations.
//
// Generations only grow, so a mark now and then tells the age of every chunk of this life, to one part in kMarks of the longest that is
// asked about. Each life begins with the generation that the time of day gives it (kNsAGeneration), which tells when an earlier one
// began. Owned by the loop's thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>

#include "sidecar/base/clock.h"

namespace larder::tiering {

// A life begins at the clock divided by this, or above every earlier one. Grants come slower.
inline constexpr std::uint64_t kNsAGeneration = 16;

class ChunkAge {
 public:
  // Ages of more than `longest_s` need not be told apart; 0: nobody asks.
  ChunkAge(std::uint32_t longest_s, const base::Clock& clock) : longest_ms_(std::uint64_t{longest_s} * 1000), clock_(clock) {}

  // At the start and at each tick: the newest generation given so far.
  void tick(std::uint64_t newest_generation) {
    if (longest_ms_ == 0) return;
    const std::uint64_t now_ms = clock_.now_ms();
    if (!marks_.empty() && now_ms - marks_.back().at_ms < std::max(kLeastMs, longest_ms_ / kMarks)) return;
    marks_.push_back({now_ms, newest_generation});
    while (now_ms - marks_.front().at_ms > 2 * longest_ms_) marks_.pop_front();
  }

  // In seconds.
  std::uint64_t age_s(std::uint64_t generation) const {
    const auto after = std::ranges::lower_bound(marks_, generation, {}, &Mark::generation);
    if (after != marks_.begin()) return (clock_.now_ms() - std::prev(after)->at_ms) / 1000;
    const std::uint64_t now_ns = unix_ns(), born_ns = generation * kNsAGeneration;
    return (now_ns - std::min(now_ns, born_ns)) / 1'000'000'000;
  }

  static std::uint64_t unix_ns() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count());
  }

 private:
  static constexpr std::uint64_t kMarks = 256, kLeastMs = 1000;
  struct Mark {
    std::uint64_t at_ms;
    std::uint64_t generation;
  };
  const std::uint64_t longest_ms_;
  const base::Clock& clock_;
  std::deque<Mark> marks_;  // oldest first; twice kMarks at most
};

}  // namespace larder::tiering

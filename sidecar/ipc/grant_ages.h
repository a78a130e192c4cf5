// GrantAges: up to which generation grants are older than kGrantAgeMs.
//
// Generations only grow, so a mark a second tells the age of every grant, and none of them is timed by itself. Owned by the loop's
// thread.
#pragma once

#include <cstdint>
#include <deque>

#include "shim/protocol/limits.h"

namespace larder::ipc {

class GrantAges {
 public:
  // At each tick: the newest generation given so far.
  void tick(std::uint64_t now_ms, std::uint64_t newest_generation) {
    if (marks_.empty() || now_ms - marks_.back().at_ms >= kMarkEveryMs) marks_.push_back({now_ms, newest_generation});
    for (; !marks_.empty() && now_ms - marks_.front().at_ms > protocol::kGrantAgeMs; marks_.pop_front())
      overdue_ = marks_.front().generation;
  }
  // Time stood still for us, and engines waited: what was given is as young as now.
  void restart() { marks_.clear(); }

  // 0: none is.
  std::uint64_t overdue() const { return overdue_; }

 private:
  static constexpr std::uint64_t kMarkEveryMs = 1000;

  struct Mark {
    std::uint64_t at_ms;
    std::uint64_t generation;
  };
  std::deque<Mark> marks_;  // oldest first; at most kGrantAgeMs / kMarkEveryMs of them and a few
  std::uint64_t overdue_ = 0;
};

}  // namespace larder::ipc

// GrantAges: up to which generation grants are too old.
//
// Generations only grow, so a mark now and then tells the age of every grant, to one part in kMarks, and none of them is timed by
// itself. Owned by the loop's thread.
#pragma once

#include <cstdint>
#include <deque>

#include "shim/protocol/limits.h"

namespace larder::session {

class GrantAges {
 public:
  explicit GrantAges(std::uint64_t age_ms = protocol::kGrantAgeMs) : age_ms_(age_ms) {}

  // At each tick: the newest generation given so far.
  void tick(std::uint64_t now_ms, std::uint64_t newest_generation) {
    if (marks_.empty() || now_ms - marks_.back().at_ms >= age_ms_ / kMarks) marks_.push_back({now_ms, newest_generation});
    for (; !marks_.empty() && now_ms - marks_.front().at_ms > age_ms_; marks_.pop_front()) overdue_ = marks_.front().generation;
  }
  // Time stood still for us, and engines waited: what was given is as young as now.
  void restart() { marks_.clear(); }

  // 0: none is.
  std::uint64_t overdue() const { return overdue_; }
  std::uint64_t age_ms() const { return age_ms_; }

 private:
  static constexpr std::uint64_t kMarks = 30;

  struct Mark {
    std::uint64_t at_ms;
    std::uint64_t generation;
  };
  const std::uint64_t age_ms_;
  std::deque<Mark> marks_;  // oldest first; kMarks of them and a few
  std::uint64_t overdue_ = 0;
};

}  // namespace larder::session

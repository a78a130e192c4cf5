// GrantAges: the generation up to which grants are too old.
//
// Generations only grow, so a mark of the newest generation now and then gives the age of every
// grant, to one part in kMarks. No grant needs a time of its own. Owned by the thread of the loop.
#pragma once

#include <cstdint>
#include <deque>

#include "shim/protocol/limits.h"

namespace larder::session {

class GrantAges {
 public:
  explicit GrantAges(std::uint64_t age_ms = protocol::kGrantAgeMs) : age_ms_(age_ms) {}

  // Called at each tick with the newest generation so far.
  void tick(std::uint64_t now_ms, std::uint64_t newest_generation) {
    if (marks_.empty() || now_ms - marks_.back().at_ms >= age_ms_ / kMarks)
      marks_.push_back({now_ms, newest_generation});
    for (; !marks_.empty() && now_ms - marks_.front().at_ms > age_ms_; marks_.pop_front())
      overdue_ = marks_.front().generation;
  }
  // larderd was stopped, and engines waited: the age of all grants restarts.
  void restart() { marks_.clear(); }

  // The highest generation that is too old; 0 if no grant is.
  std::uint64_t overdue() const { return overdue_; }
  std::uint64_t age_ms() const { return age_ms_; }

 private:
  static constexpr std::uint64_t kMarks = 30;

  struct Mark {
    std::uint64_t at_ms;
    std::uint64_t generation;
  };
  const std::uint64_t age_ms_;
  std::deque<Mark> marks_;  // oldest first; a few more than kMarks
  std::uint64_t overdue_ = 0;
};

}  // namespace larder::session

// UseAges: the age of a use, from its stamp. Stamps only grow, so a mark now and then gives the age
// of every stamp, and no use needs a time of its own. The age of recent uses is exact to the tick;
// the age of old uses is exact to about one part in kMarks / 2 of the time since the first mark.
//
// The caller passes in the time. Owned by the thread of the store; bounded by kMarks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace larder::store {

class UseAges {
 public:
  // `newest_stamp`: the newest stamp so far. REQUIRES: time and stamp never fall.
  void tick(std::uint64_t now_ms, std::uint64_t newest_stamp) {
    now_ms_ = now_ms;
    if (!marks_.empty() && now_ms - marks_.back().at_ms < step_ms_) return;
    marks_.push_back({newest_stamp, now_ms});
    if (marks_.size() < kMarks) return;
    for (std::size_t i = 0; 2 * i < marks_.size(); ++i) marks_[i] = marks_[2 * i];
    marks_.resize(kMarks / 2);
    step_ms_ *= 2;
  }
  // The age of a use with this stamp. Empty before the first tick.
  std::optional<std::uint64_t> age_ms(std::uint64_t stamp) const {
    if (marks_.empty()) return std::nullopt;
    const auto later =
        std::ranges::lower_bound(marks_, stamp, {}, &Mark::stamp);  // the mark after the use
    return later == marks_.end() ? 0 : now_ms_ - later->at_ms;
  }

 private:
  static constexpr std::size_t kMarks = 1024;
  struct Mark {
    std::uint64_t stamp, at_ms;
  };
  std::vector<Mark> marks_;  // oldest first
  std::uint64_t step_ms_ = 100, now_ms_ = 0;
};

}  // namespace larder::store

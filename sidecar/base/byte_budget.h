// ByteBudget: a rate in bytes a second, with a burst of one second. A chunk above the burst passes
// too, and the next chunks wait longer. Pure: the caller passes in times. Thread-compatible.
#pragma once

#include <algorithm>
#include <cstdint>

namespace larder::base {

class ByteBudget {
 public:
  // 0: no budget.
  explicit ByteBudget(std::uint64_t bytes_per_s)
      : bytes_per_s_(bytes_per_s), left_(static_cast<double>(bytes_per_s)) {}

  // Whether a chunk may be sent now. REQUIRES: times never decrease.
  bool any(std::uint64_t now_ns) {
    if (bytes_per_s_ == 0) return true;
    const auto most = static_cast<double>(bytes_per_s_);
    if (counted_ns_ != 0)
      left_ = std::min(most, left_ + static_cast<double>(now_ns - counted_ns_) * 1e-9 * most);
    counted_ns_ = now_ns;
    return left_ > 0;
  }
  bool limited() const { return bytes_per_s_ != 0; }
  void spend(std::uint64_t bytes) { left_ -= static_cast<double>(bytes); }

 private:
  std::uint64_t bytes_per_s_;
  double left_;
  std::uint64_t counted_ns_ = 0;
};

}  // namespace larder::base

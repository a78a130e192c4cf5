// Health: why the tier does not take puts or gets just now, and when what failed is tried again. Pure; thread-compatible.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "sidecar/tiers/tier.h"

namespace larder::disk {

class Health {
 public:
  explicit Health(std::uint64_t retry_ms) : least_ns_(retry_ms * 1'000'000), wait_ns_(least_ns_) {}

  // In the order in which they are told: the first is the reason.
  enum Cause { kLost, kStalled, kReads, kWrites, kCauses };

  void set(Cause cause, std::string reason) {
    if (reasons_[cause].empty()) ++times_;
    reasons_[cause] = std::move(reason);
  }
  // That a trailer is written does not prove that a record is: the waits begin anew once one was.
  void clear(Cause cause) {
    reasons_[cause].clear();
    if (cause != kWrites && !state().degraded()) proven();
  }
  void proven() { wait_ns_ = least_ns_; }
  bool is(Cause cause) const { return !reasons_[cause].empty(); }
  tiers::TierState state() const {
    for (const std::string& reason : reasons_) {
      if (reason.empty()) continue;
      const bool gets = !is(kLost) && !is(kStalled) && !is(kReads);
      return {false, gets, reason};
    }
    return {};
  }
  std::uint64_t times() const { return times_; }  // that something began to fail

  // Whether something that failed is to be tried again now; the next time is further away.
  bool retry(std::uint64_t now_ns) {
    if (now_ns < next_ns_) return false;
    next_ns_ = now_ns + wait_ns_;
    wait_ns_ = std::min(wait_ns_ * 2, least_ns_ * 50);
    return true;
  }

 private:
  std::string reasons_[kCauses];
  std::uint64_t least_ns_, wait_ns_;
  std::uint64_t next_ns_ = 0;
  std::uint64_t times_ = 0;
};

}  // namespace larder::disk

// Health: why the tier refuses puts or gets now, and the time of the next attempt. Pure;
// thread-compatible.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "sidecar/tiers/tier.h"

namespace larder::disk {

class Health {
 public:
  explicit Health(std::uint64_t retry_ms) : least_ns_(retry_ms * 1'000'000), wait_ns_(least_ns_) {}

  // In the order of importance: the first cause in force is the reason.
  enum Cause { kLost, kStalled, kReads, kWrites, kCauses };

  void set(Cause cause, std::string reason) {
    if (reasons_[cause].empty()) ++times_;
    reasons_[cause] = std::move(reason);
  }
  // A successful write of a trailer does not prove that records work: the waits start again once a
  // record is written.
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
  std::uint64_t times() const { return times_; }  // the number of faults so far

  // Whether an attempt is due now. Doubles the wait for the next one.
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

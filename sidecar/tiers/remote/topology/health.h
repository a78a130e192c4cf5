// Health: why a server, or the whole tier, refuses puts or gets now, and the time of the next
// attempt. Pure; thread-compatible.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "sidecar/tiers/tier.h"

namespace larder::remote {

class Health {
 public:
  Health(std::uint64_t least_ms, std::uint64_t most_ms)
      : least_ns_(least_ms * 1'000'000), most_ns_(most_ms * 1'000'000), wait_ns_(least_ns_) {}

  // In the order of importance: the first cause in force is the reason. kWrites refuses only puts.
  enum Cause { kConnection, kReads, kWrites, kCauses };

  // Returns whether the cause is new.
  bool set(Cause cause, std::string reason) {
    const bool news = reasons_[cause].empty();
    times_ += news ? 1 : 0;
    reasons_[cause] = std::move(reason);
    return news;
  }
  // An accepted short write does not prove that the failed write works: the waits start again once
  // such a chunk is stored.
  bool clear(Cause cause) {
    const bool news = !std::exchange(reasons_[cause], {}).empty();
    if (cause != kWrites && !state().degraded()) proven();
    return news;
  }
  void proven() { wait_ns_ = least_ns_; }
  bool is(Cause cause) const { return !reasons_[cause].empty(); }
  const std::string& reason(Cause cause) const { return reasons_[cause]; }
  tiers::TierState state() const {
    for (const std::string& reason : reasons_)
      if (!reason.empty()) return {false, !is(kConnection) && !is(kReads), reason, {}};
    return {};
  }
  bool well() const { return !is(kConnection) && !is(kReads) && !is(kWrites); }
  std::uint64_t times() const { return times_; }  // the number of faults so far

  // Whether an attempt after an error reply is due now. Doubles the wait for the next one.
  bool retry(std::uint64_t now_ns) {
    if (now_ns < next_ns_) return false;
    next_ns_ = now_ns + wait_ns_;
    wait_ns_ = std::min(2 * wait_ns_, most_ns_);
    return true;
  }
  std::uint64_t next_ns() const { return next_ns_; }

 private:
  std::string reasons_[kCauses];
  std::uint64_t least_ns_, most_ns_, wait_ns_;
  std::uint64_t next_ns_ = 0;
  std::uint64_t times_ = 0;
};

}  // namespace larder::remote

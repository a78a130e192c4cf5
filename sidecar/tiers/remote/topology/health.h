// Health: why a server, or all of the tier, takes no puts or gets just now, and when what failed is tried again. Pure;
// thread-compatible.
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

  // In the order in which they are told: the first is the reason. kWrites keeps puts alone away.
  enum Cause { kConnection, kReads, kWrites, kCauses };

  // Whether that is news.
  bool set(Cause cause, std::string reason) {
    const bool news = reasons_[cause].empty();
    times_ += news ? 1 : 0;
    reasons_[cause] = std::move(reason);
    return news;
  }
  // That a short write is taken does not prove that what failed is: the waits begin anew once that is stored.
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
  std::uint64_t times() const { return times_; }  // that something began to fail

  // Whether what an error reply forbade is to be tried again now; the next time is further away.
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

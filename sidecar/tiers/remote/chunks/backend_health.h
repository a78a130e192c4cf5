// BackendHealth: the health of the tier, from the health of the servers, and the log lines about
// it. Owned by the thread of the tier.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/topology/backend.h"
#include "sidecar/tiers/remote/topology/health.h"
#include "sidecar/tiers/tier.h"

namespace larder::remote {

class BackendHealth {
 public:
  // Both are called in maintain() alone.
  struct Listener {
    // The waiting puts, or the waiting gets and probes, fail now.
    std::function<void(bool puts, bool gets)> fail_waiting;
    // No server is connected: flushes and drops fail now.
    std::function<void(const Status& why)> fail_awaiting;
  };

  // All references outlive this object.
  BackendHealth(const base::Clock& clock, const RemoteOptions& options, const Backend& backend,
                Listener listener)
      : clock_(clock),
        options_(options),
        backend_(backend),
        listener_(std::move(listener)),
        health_(options.retry_ms, options.most_retry_ms) {}
  BackendHealth(const BackendHealth&) = delete;
  BackendHealth& operator=(const BackendHealth&) = delete;

  void maintain();

  tiers::TierState state() const;
  bool takes_puts() const { return health_.state().takes_puts; }
  bool takes_gets() const { return health_.state().takes_gets; }
  bool reads_fail() const { return health_.is(Health::kReads); }
  // The error of an operation that the tier does not take.
  Status why() const { return {Code::kUnavailable, health_.state().reason}; }
  std::uint64_t times() const { return health_.times(); }  // the number of faults so far

 private:
  void follow(Health::Cause cause, const std::string& reason);

  const base::Clock& clock_;
  const RemoteOptions& options_;
  const Backend& backend_;
  const Listener listener_;
  Health health_;
  std::string part_;            // the sick servers among several
  std::string refused_chunks_;  // the refused chunks and the reason
  std::uint64_t refused_line_ns_ = 0, taken_line_ns_ = 0;
};

}  // namespace larder::remote

// LeaderLease: elects one leading replica by a coordination.k8s.io Lease, and limits the time in
// which this replica may write.
//
// The holder renews the lease. A candidate takes over after it has seen the lease unchanged for a
// whole duration of the candidate's own monotonic clock. The code never compares two clocks. The
// holder counts from the moment before the last renewal request, by the monotonic clock and by the
// clock that runs while a machine sleeps; the clock that is further ahead decides. The holder stops
// a margin earlier, so that its writes end before a candidate may begin. A stopped process finds
// its time over when it continues, before it sends a byte (write_guard.h).
//
// One thread calls step(); any thread may call left_ms() and held().
#pragma once

#include <atomic>
#include <string>

#include "operator/k8s/api_client.h"
#include "operator/k8s/fence.h"
#include "sidecar/base/clock.h"

namespace larder::k8s {

struct LeaseOptions {
  std::string ns = {}, name = {};
  std::string identity = {};           // unique among all processes ever: unique_identity()
  std::uint64_t duration_ms = 12'000;  // whole seconds
  std::uint64_t renew_ms = 2'000;
  std::uint64_t margin_ms = 2'000;
};

// The pod's `name` and a random number, since a restarted container of a pod is another holder.
std::string unique_identity(const std::string& name);

class LeaderLease final : public Fence {
 public:
  // The arguments outlive the lease. `client` has no fence and a deadline of a few seconds.
  LeaderLease(ApiClient& client, LeaseOptions options, const base::Clock& monotonic,
              const base::Clock& boottime);

  // Acquires or renews once if allowed. Call again after `again_ms`. A failed status is for the
  // log; the next step tries again.
  struct Step {
    std::uint64_t again_ms = 0;
    Status status = {};
  };
  Step step();

  std::uint64_t left_ms() const override;
  bool held() const { return left_ms() > 0; }
  // The holder at the last look. Empty: no holder, or unknown.
  const std::string& holder() const { return seen_holder_; }

  // Gives the lease up, so that a candidate leads at once. Writes are refused from the call on.
  Status release();

 private:
  struct Times {
    std::uint64_t monotonic_ms, boottime_ms;
  };

  Times now() const { return {monotonic_.now_ms(), boottime_.now_ms()}; }
  Step acquire_or_wait();
  Step write(api::Object lease, bool create, Times before);
  api::Object fresh() const;
  void hold_from(Times before);
  void note(const api::Object& lease, std::uint64_t now_ms);

  ApiClient& client_;
  const LeaseOptions options_;
  const base::Clock& monotonic_;
  const base::Clock& boottime_;

  std::atomic<std::uint64_t> until_monotonic_ms_{0}, until_boottime_ms_{0};
  api::Object own_;  // our last write, with resourceVersion; null: another replica holds the lease

  // A candidate's view: the last version and holder, and the time of the last change.
  std::string seen_version_, seen_holder_;
  std::uint64_t seen_since_ms_ = 0;
};

}  // namespace larder::k8s

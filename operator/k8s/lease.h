// LeaderLease: who of the replicas leads, by a coordination.k8s.io Lease, and until when this one may write.
//
// The holder renews; a candidate takes over once it has seen the lease unchanged for its whole duration, by its own monotonic clock. No
// two clocks are ever compared. The holder counts from before it asked for the last renewal, by the monotonic clock and by the one that
// goes on while a machine sleeps, whichever is further, and stops a margin earlier: writes end before another may begin. A process that
// was stopped finds its time over when it goes on, before it sends a byte (write_guard.h).
//
// step() belongs to one thread; left_ms() and held() may be called by any.
#pragma once

#include <atomic>
#include <string>

#include "operator/k8s/api_client.h"
#include "operator/k8s/fence.h"
#include "sidecar/base/clock.h"

namespace larder::k8s {

struct LeaseOptions {
  std::string ns = {}, name = {};
  std::string identity = {};           // differs between all processes that ever run: unique_identity()
  std::uint64_t duration_ms = 12'000;  // whole seconds
  std::uint64_t renew_ms = 2'000;
  std::uint64_t margin_ms = 2'000;
};

// `name` (of the pod) and a random number: a container that starts anew in the same pod is another holder.
std::string unique_identity(const std::string& name);

class LeaderLease final : public Fence {
 public:
  // All that is referred to outlives it. `client` has no fence, and a deadline of a few seconds.
  LeaderLease(ApiClient& client, LeaseOptions options, const base::Clock& monotonic, const base::Clock& boottime);

  // Acquires or renews once, as far as it may; returns in how many ms it is to be called again. An error is for the log: it is tried
  // again.
  struct Step {
    std::uint64_t again_ms = 0;
    Status status = {};
  };
  Step step();

  std::uint64_t left_ms() const override;
  bool held() const { return left_ms() > 0; }
  // Who holds it by the last look; empty: nobody, or not known.
  const std::string& holder() const { return seen_holder_; }

  // Gives it up, so that another need not wait. Writes are refused from its first moment on.
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
  api::Object own_;  // as we wrote it last, with its resourceVersion; null: not ours

  // A candidate's view: what stood there, and since when unchanged.
  std::string seen_version_, seen_holder_;
  std::uint64_t seen_since_ms_ = 0;
};

}  // namespace larder::k8s

// LeaderElection: the thread that keeps a LeaderLease and reports when this replica starts and
// stops leading.
//
// Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "operator/k8s/lease.h"
#include "operator/k8s/metrics.h"

namespace larder::k8s {

class LeaderElection {
 public:
  // The thread calls `changed` with whether this replica leads; `changed` must return quickly. The
  // lease refuses writes whatever `changed` does. All arguments outlive the object.
  LeaderElection(ApiClient& client, LeaseOptions options, const base::Clock& monotonic,
                 const base::Clock& boottime, Metrics& metrics,
                 std::function<void(bool leads)> changed);
  // Releases the lease. Stop all writers first.
  ~LeaderElection();

  const Fence& fence() const { return lease_; }
  bool leads() const { return lease_.held(); }

 private:
  void run(const std::stop_token& stop);
  void tell(bool leads);

  const std::string name_;
  LeaderLease lease_;
  Gauge& status_;
  const std::function<void(bool)> changed_;
  bool reported_ = false;  // used only by the thread
  std::jthread thread_;
};

}  // namespace larder::k8s

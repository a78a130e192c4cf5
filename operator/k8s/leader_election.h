// LeaderElection: the thread that keeps a LeaderLease, and tells when this replica begins and ends to lead.
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
  // `changed` is called on the thread with whether it leads now; it must return quickly. Writes are refused by the lease itself, whatever
  // it does. `metrics` and all that LeaderLease refers to outlive it.
  LeaderElection(ApiClient& client, LeaseOptions options, const base::Clock& monotonic, const base::Clock& boottime,
                 Metrics& metrics, std::function<void(bool leads)> changed);
  // Gives the lease up: stop what writes first.
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
  bool told_ = false;  // the thread's own
  std::jthread thread_;
};

}  // namespace larder::k8s

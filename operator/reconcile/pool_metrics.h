// larder_pool_*: sums over the pods of a pool, for dashboards. Thread-safe.
//
// Labels are namespace and name of the pool, and a reason from a small set. The number of series
// grows with pools, never with pods.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "operator/k8s/metrics.h"
#include "operator/k8s/work_queue.h"
#include "operator/reconcile/pool_status.h"

namespace larder::reconcile {

class PoolMetrics {
 public:
  // `metrics` outlives the object.
  explicit PoolMetrics(k8s::Metrics& metrics) : metrics_(metrics) {}

  // Empty sums: the pool is gone; removes its series.
  void tell(const k8s::Key& pool, const std::optional<PoolSums>& sums, bool ready);
  // Removes all series when another replica leads.
  void forget_all();

 private:
  void forget(const k8s::Key& pool);

  k8s::Metrics& metrics_;
  std::mutex mutex_;
  std::map<k8s::Key, std::vector<k8s::Gauge*>> exported_;
};

}  // namespace larder::reconcile

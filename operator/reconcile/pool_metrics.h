// larder_pool_*: what a pool's pods add up to, for dashboards. Thread-safe.
//
// Labels are the pool's namespace and name, and a reason of a few: as many series as pools, never as pods.
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
  // `metrics` outlives it.
  explicit PoolMetrics(k8s::Metrics& metrics) : metrics_(metrics) {}

  // Nothing: the pool is gone, and its series go.
  void tell(const k8s::Key& pool, const std::optional<PoolSums>& sums, bool ready);
  // All series: another replica leads, and tells of them from now on.
  void forget_all();

 private:
  void forget(const k8s::Key& pool);

  k8s::Metrics& metrics_;
  std::mutex mutex_;
  std::map<k8s::Key, std::vector<k8s::Gauge*>> told_;
};

}  // namespace larder::reconcile

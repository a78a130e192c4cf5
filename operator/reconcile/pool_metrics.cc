#include "operator/reconcile/pool_metrics.h"

#include <array>

namespace larder::reconcile {
namespace {

struct Series {
  const char* name;
  const char* help;
  double (*value)(const PoolSums& sums, bool ready);
};

double number(std::uint64_t value) {
  return static_cast<double>(value);
}

// Gauges, even for counters of larderd, since larderds come and go.
constexpr std::array<Series, 13> kSeries{{
    {"larder_pool_ready", "1: the pool's condition Ready is True",
     [](const PoolSums&, bool ready) { return ready ? 1.0 : 0.0; }},
    {"larder_pool_pods", "Pods of the pool with a larderd",
     [](const PoolSums& s, bool) { return number(s.pods); }},
    {"larder_pool_pods_attached", "Pods of the pool whose larderd is ready",
     [](const PoolSums& s, bool) { return number(s.attached); }},
    {"larder_pool_pods_need_restart", "Pods that need a restart for the current spec of the pool",
     [](const PoolSums& s, bool) { return number(s.need_restart); }},
    {"larder_pool_pods_answering", "Pods whose larderd answered the operator",
     [](const PoolSums& s, bool) { return number(s.answered); }},
    {"larder_pool_engines", "Engine processes attached to the pool's larderd",
     [](const PoolSums& s, bool) { return number(s.engines); }},
    {"larder_pool_memory_used_bytes", "Bytes of chunks in the memory of all pods",
     [](const PoolSums& s, bool) { return number(s.memory_used_bytes); }},
    {"larder_pool_memory_size_bytes", "Bytes of memory for chunks in all pods",
     [](const PoolSums& s, bool) { return number(s.memory_size_bytes); }},
    {"larder_pool_disk_used_bytes", "Bytes of chunks on the disks of all pods",
     [](const PoolSums& s, bool) { return number(s.disk_used_bytes); }},
    {"larder_pool_disk_size_bytes", "Bytes of disk for chunks in all pods",
     [](const PoolSums& s, bool) { return number(s.disk_size_bytes); }},
    {"larder_pool_requests", "Requests looked up by engines since the start of larderd",
     [](const PoolSums& s, bool) { return number(s.requests); }},
    {"larder_pool_tokens_asked", "Prompt tokens looked up by engines since the start of larderd",
     [](const PoolSums& s, bool) { return number(s.tokens_asked); }},
    {"larder_pool_tokens_hit", "Looked-up prompt tokens loaded by engines instead of computed",
     [](const PoolSums& s, bool) { return number(s.tokens_hit); }},
}};

// The labels are bounded by the number of pools; forget() removes the series of a deleted pool.
k8s::Labels labels_of(const k8s::Key& pool) {
  return {{"namespace", pool.ns}, {"pool", pool.name}};
}

constexpr const char* kFailing = "larder_pool_pods_failing";

k8s::Labels labels_of(const k8s::Key& pool, Trouble trouble) {
  return {{"namespace", pool.ns}, {"pool", pool.name}, {"reason", text(trouble)}};
}

}  // namespace

// Every reconcile tells all series, so a new leader's metrics are complete after its first round.
void PoolMetrics::tell(const k8s::Key& pool, const std::optional<PoolSums>& sums, bool ready) {
  const std::lock_guard lock(mutex_);
  if (!sums) return forget(pool);
  std::vector<k8s::Gauge*>& gauges = exported_[pool];
  if (gauges.empty())
    for (const Series& series : kSeries)
      gauges.push_back(&metrics_.gauge(series.name, series.help, labels_of(pool)));
  for (std::size_t i = 0; i < kSeries.size(); ++i) gauges[i]->set(kSeries[i].value(*sums, ready));
  // A reason without pods is reported as 0, so a graph falls to zero and does not end.
  for (const Trouble trouble : kTroubles) {
    const auto found = sums->troubled.find(trouble);
    metrics_
        .gauge(kFailing, "Pods of the pool in which larderd does not run, by reason",
               labels_of(pool, trouble))
        .set(found == sums->troubled.end() ? 0 : number(found->second));
  }
}

void PoolMetrics::forget(const k8s::Key& pool) {
  if (exported_.erase(pool) == 0) return;
  for (const Series& series : kSeries) metrics_.remove_gauge(series.name, labels_of(pool));
  for (const Trouble trouble : kTroubles) metrics_.remove_gauge(kFailing, labels_of(pool, trouble));
}

// A replica that leads no more must not export the figures of its time as a leader.
void PoolMetrics::forget_all() {
  const std::lock_guard lock(mutex_);
  while (!exported_.empty()) forget(k8s::Key(exported_.begin()->first));
}

}  // namespace larder::reconcile

#include "operator/k8s/work_queue.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <random>

#include "operator/k8s/metrics.h"
#include "operator/k8s/queue_order.h"

namespace larder::k8s {
namespace {

constexpr std::chrono::milliseconds kLongestNap{
    1'000};  // while something is due later: the clock may not be the wall's

// The metrics of controller-runtime's queues.
class QueueMetrics {
 public:
  QueueMetrics(Metrics& metrics, const std::string& queue)
      : depth(metrics.gauge("workqueue_depth", "Current depth of workqueue", labels(queue))),
        unfinished(metrics.gauge("workqueue_unfinished_work_seconds",
                                 "How many seconds of work has been done that is in progress and "
                                 "hasn't been observed by work_duration",
                                 labels(queue))),
        longest(metrics.gauge(
            "workqueue_longest_running_processor_seconds",
            "How many seconds has the longest running processor for workqueue been running.",
            labels(queue))),
        adds(metrics.counter("workqueue_adds_total", "Total number of adds handled by workqueue",
                             labels(queue))),
        retries(metrics.counter("workqueue_retries_total",
                                "Total number of retries handled by workqueue", labels(queue))),
        waited(metrics.histogram(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested", kQueueBuckets,
            labels(queue))),
        worked(metrics.histogram("workqueue_work_duration_seconds",
                                 "How long in seconds processing an item from workqueue takes.",
                                 kQueueBuckets, labels(queue))) {}

  Gauge &depth, &unfinished, &longest;
  Counter &adds, &retries;
  Histogram &waited, &worked;

 private:
  static Labels labels(const std::string& queue) {
    return {{"name", queue}, {"controller", queue}};
  }
};

class LockedQueue final : public WorkQueue {
 public:
  LockedQueue(const std::string& name, const base::Clock& clock, Metrics* metrics)
      : clock_(clock),
        random_(std::random_device()()),
        // Callers without Metrics get a registry that nobody reads, so the queue needs no second
        // form.
        own_(metrics == nullptr ? std::make_unique<Metrics>() : nullptr),
        metrics_(metrics == nullptr ? *own_ : *metrics, name),
        collecting_((metrics == nullptr ? *own_ : *metrics).before_text([this] { collect(); })) {}

  void add(const Key& key) override {
    const std::lock_guard lock(mutex_);
    order_.add(key, clock_.now_ms());
    metrics_.adds.add();
    tell();
  }

  void add_after(const Key& key, std::chrono::milliseconds delay) override {
    const std::lock_guard lock(mutex_);
    const std::uint64_t now_ms = clock_.now_ms();
    order_.add_at(
        key, now_ms + static_cast<std::uint64_t>(std::max<std::int64_t>(0, delay.count())), now_ms);
    tell();
  }

  std::optional<Key> take(std::stop_token stop) override;

  void done(const Key& key) override {
    const std::lock_guard lock(mutex_);
    finish(key);
    order_.done(key, clock_.now_ms());
    tell();
  }

  void retry(const Key& key) override {
    const std::lock_guard lock(mutex_);
    finish(key);
    order_.retry(key, clock_.now_ms(), static_cast<std::uint32_t>(random_()));
    metrics_.retries.add();
    tell();
  }

 private:
  void collect();
  // done() and retry() may come for a key of an earlier take(); such a key has no beginning.
  void finish(const Key& key) {
    const auto began = began_.find(key);
    if (began == began_.end()) return;
    metrics_.worked.observe(static_cast<double>(clock_.now_ms() - began->second) / 1e3);
    began_.erase(began);
  }
  void tell() {
    // notify_all, since one waiting worker may have a later due time than the new key.
    metrics_.depth.set(static_cast<double>(order_.queued()));
    changed_.notify_all();
  }

  const base::Clock& clock_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  QueueOrder order_;
  std::map<Key, std::uint64_t> began_;
  std::minstd_rand random_;
  const std::unique_ptr<Metrics> own_;  // for a caller without Metrics
  QueueMetrics metrics_;
  const std::shared_ptr<void> collecting_;  // last: its end waits for a collect() under way
};

std::optional<Key> LockedQueue::take(std::stop_token stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const std::uint64_t now_ms = clock_.now_ms();
    if (std::optional<QueueOrder::Taken> taken = order_.take(now_ms)) {
      began_[taken->key] = now_ms;
      metrics_.waited.observe(static_cast<double>(now_ms - taken->added_ms) / 1e3);
      metrics_.depth.set(static_cast<double>(order_.queued()));
      return std::move(taken->key);
    }
    const std::optional<std::uint64_t> due_ms = order_.next_due_ms();
    const auto ready = [this, due_ms] {
      return order_.queued() > 0 || order_.next_due_ms() != due_ms;
    };
    if (!due_ms)
      changed_.wait(lock, stop, ready);
    else
      // The wait is by the steady clock, and due times by the given clock. Short naps bound the
      // difference.
      changed_.wait_for(lock, stop,
                        std::min(kLongestNap, std::chrono::milliseconds(*due_ms - now_ms)), ready);
  }
  return std::nullopt;
}

void LockedQueue::collect() {
  const std::lock_guard lock(mutex_);
  double sum = 0, longest = 0;
  for (const auto& [key, began_ms] : began_) {
    const double seconds = static_cast<double>(clock_.now_ms() - began_ms) / 1e3;
    sum += seconds;
    longest = std::max(longest, seconds);
  }
  metrics_.unfinished.set(sum);
  metrics_.longest.set(longest);
}

}  // namespace

std::unique_ptr<WorkQueue> WorkQueue::make(std::string name, const base::Clock& clock,
                                           Metrics* metrics) {
  return std::make_unique<LockedQueue>(name, clock, metrics);
}

}  // namespace larder::k8s

#include "operator/k8s/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>
#include <sstream>

namespace larder::k8s {

// The bounds of controller-runtime (webhook and reconcile times) and of client-go's work queues, so
// existing dashboards fit.
const std::vector<double> kTimeBuckets{0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3,  0.35,
                                       0.4,   0.45, 0.5,   0.6,  0.7, 0.8,  0.9, 1.0,  1.25, 1.5,
                                       1.75,  2.0,  2.5,   3.0,  3.5, 4.0,  4.5, 5,    6,    7,
                                       8,     9,    10,    15,   20,  25,   30,  40,   50,   60};
const std::vector<double> kQueueBuckets{1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10};

namespace {

class CounterHandle final : public Counter {
 public:
  explicit CounterHandle(prometheus::Counter& counter) : counter_(counter) {}
  void add(double by) override { counter_.Increment(by); }
  double value() const override { return counter_.Value(); }

 private:
  prometheus::Counter& counter_;
};

class GaugeHandle final : public Gauge {
 public:
  explicit GaugeHandle(prometheus::Gauge& gauge) : gauge_(gauge) {}
  void set(double value) override { gauge_.Set(value); }
  void add(double by) override { gauge_.Increment(by); }
  double value() const override { return gauge_.Value(); }
  prometheus::Gauge* inner() { return &gauge_; }

 private:
  prometheus::Gauge& gauge_;
};

class HistogramHandle final : public Histogram {
 public:
  explicit HistogramHandle(prometheus::Histogram& histogram) : histogram_(histogram) {}
  void observe(double value) override { histogram_.Observe(value); }

 private:
  prometheus::Histogram& histogram_;
};

}  // namespace

// The handles live as long as the registry, so callers may keep references. prometheus-cpp owns the
// metrics behind the handles.
struct Metrics::Registry {
  template <typename Handle>
  using Handles = std::map<std::pair<std::string, Labels>, std::unique_ptr<Handle>>;

  std::mutex mutex;
  prometheus::Registry registry;
  Handles<CounterHandle> counters;
  Handles<GaugeHandle> gauges;
  Handles<HistogramHandle> histograms;
  std::mutex collect_mutex;
  std::map<std::uint64_t, std::function<void()>> collectors;
  std::uint64_t collectors_made = 0;

  // The handle of (name, labels), made by `make` where it is new.
  template <typename Handle, typename Make>
  // Labels must come from bounded sets (controllers, verbs, codes, pools): a handle lives as long
  // as the registry, unless remove_gauge() ends a series.
  static Handle& find(Handles<Handle>& handles, const std::string& name, const Labels& labels,
                      Make make) {
    std::unique_ptr<Handle>& handle = handles[{name, labels}];
    if (handle == nullptr) handle = std::make_unique<Handle>(make());
    return *handle;
  }
};

Metrics::Metrics() : registry_(std::make_shared<Registry>()) {}
Metrics::~Metrics() = default;

Counter& Metrics::counter(const std::string& name, const std::string& help, const Labels& labels) {
  const std::lock_guard lock(registry_->mutex);
  return Registry::find(registry_->counters, name, labels, [&]() -> prometheus::Counter& {
    return prometheus::BuildCounter()
        .Name(name)
        .Help(help)
        .Register(registry_->registry)
        .Add(labels);
  });
}

Gauge& Metrics::gauge(const std::string& name, const std::string& help, const Labels& labels) {
  const std::lock_guard lock(registry_->mutex);
  return Registry::find(registry_->gauges, name, labels, [&]() -> prometheus::Gauge& {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry_->registry).Add(labels);
  });
}

Histogram& Metrics::histogram(const std::string& name, const std::string& help,
                              const std::vector<double>& bounds, const Labels& labels) {
  const std::lock_guard lock(registry_->mutex);
  return Registry::find(registry_->histograms, name, labels, [&]() -> prometheus::Histogram& {
    return prometheus::BuildHistogram()
        .Name(name)
        .Help(help)
        .Register(registry_->registry)
        .Add(labels, bounds);
  });
}

void Metrics::remove_gauge(const std::string& name, const Labels& labels) {
  const std::lock_guard lock(registry_->mutex);
  const auto found = registry_->gauges.find({name, labels});
  if (found == registry_->gauges.end()) return;
  // prometheus-cpp returns the existing family for the same name; Remove() takes the metric out of
  // it.
  prometheus::BuildGauge().Name(name).Register(registry_->registry).Remove(found->second->inner());
  registry_->gauges.erase(found);
}

// The returned pointer ends the callback. The registry is captured as a shared_ptr, since the
// pointer may outlive Metrics.
std::shared_ptr<void> Metrics::before_text(std::function<void()> collect) {
  const std::lock_guard lock(registry_->collect_mutex);
  const std::uint64_t number = ++registry_->collectors_made;
  registry_->collectors.emplace(number, std::move(collect));
  const auto end = [registry = registry_, number](void*) {
    const std::lock_guard ending(registry->collect_mutex);  // not while it is being called
    registry->collectors.erase(number);
  };
  return {nullptr, end};
}

std::string Metrics::text() {
  {
    // A collector sets gauges and takes only the other lock: both locks are never held in the
    // reverse order.
    const std::lock_guard lock(registry_->collect_mutex);
    for (const auto& [number, collect] : registry_->collectors) collect();
  }
  std::ostringstream stream;
  prometheus::TextSerializer().Serialize(stream, registry_->registry.Collect());
  return stream.str();
}

}  // namespace larder::k8s

// Metrics: the operator's counters, gauges and histograms in Prometheus's text format, under the
// names of controller-runtime and client-go. The only include of prometheus-cpp in the operator.
//
// Thread-safe. A handle is valid as long as the Metrics; look a frequently used handle up once.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace larder::k8s {

using Labels = std::map<std::string, std::string>;

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void add(double by = 1) = 0;
  virtual double value() const = 0;
};

class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void set(double value) = 0;
  virtual void add(double by) = 0;
  virtual double value() const = 0;
};

class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void observe(double value) = 0;
};

// Upper bounds in seconds, as in controller-runtime: for reconciles and requests, and powers of ten
// for queues.
extern const std::vector<double> kTimeBuckets, kQueueBuckets;

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Creates a missing metric. A name has one kind and one help text. Label values must be bounded:
  // never names of pods.
  Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram& histogram(const std::string& name, const std::string& help,
                       const std::vector<double>& bounds, const Labels& labels = {});

  // Removes a gauge whose object is gone. The handle is then invalid.
  void remove_gauge(const std::string& name, const Labels& labels);

  // Calls the function before each text() until the returned pointer is destroyed. For values that
  // must be polled. Must be quick.
  [[nodiscard]] std::shared_ptr<void> before_text(std::function<void()> collect);

  // The answer to GET /metrics.
  std::string text();

  // Content type of the text format.
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Registry;
  std::shared_ptr<Registry> registry_;  // shared with the pointers that before_text() returned
};

}  // namespace larder::k8s

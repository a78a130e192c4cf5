// Metrics: the operator's counters, gauges and histograms in Prometheus's text format, under the names of controller-runtime and
// client-go, which dashboards know. The only door to prometheus-cpp.
//
// Thread-safe. Handles stay valid as long as the Metrics; look them up once where it is often.
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

// Upper bounds in seconds. Of reconciles and requests as in controller-runtime; of queues its powers of ten.
extern const std::vector<double> kTimeBuckets, kQueueBuckets;

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Made where it is not there yet. One name is of one kind, with one help. Labels must be bounded: never names of pods.
  Counter& counter(const std::string& name, const std::string& help, const Labels& labels = {});
  Gauge& gauge(const std::string& name, const std::string& help, const Labels& labels = {});
  Histogram& histogram(const std::string& name, const std::string& help, const std::vector<double>& bounds,
                       const Labels& labels = {});

  // Takes a gauge away: what it told of is gone. Its handle is void after that.
  void remove_gauge(const std::string& name, const Labels& labels);

  // Called before each text(), as long as what is returned lives: for values that are only known by asking. Quick.
  [[nodiscard]] std::shared_ptr<void> before_text(std::function<void()> collect);

  // What GET /metrics answers.
  std::string text();

  // Of the text format.
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Registry;
  std::shared_ptr<Registry> registry_;  // shared with what before_text() returned
};

}  // namespace larder::k8s

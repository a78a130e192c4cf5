#include "sidecar/pages/metric_families.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <sstream>

namespace larder::pages {
namespace {

// Our own enum, so that no other file includes prometheus-cpp.
prometheus::MetricType type_of(MetricType type) {
  switch (type) {
    case MetricType::kCounter: return prometheus::MetricType::Counter;
    case MetricType::kGauge: return prometheus::MetricType::Gauge;
    case MetricType::kHistogram: break;  // no default, so that -Wswitch names a new type
  }
  return prometheus::MetricType::Histogram;
}

prometheus::ClientMetric labelled(const Labels& labels) {
  prometheus::ClientMetric metric;
  for (const auto& [name, value] : labels) metric.label.push_back({name, value});
  return metric;
}

}  // namespace

// Hides the types of prometheus-cpp from the header.
struct Families::Made {
  std::vector<prometheus::MetricFamily> families;
};

Families::Families() : made_(std::make_unique<Made>()) {}
Families::~Families() = default;

void Families::begin(MetricType type, const std::string& name, const std::string& help) {
  // One prefix for all metrics, as Prometheus recommends for an application.
  made_->families.push_back({"larder_" + name, help, type_of(type), {}});
}

void Families::add(double value, const Labels& labels) {
  prometheus::ClientMetric metric = labelled(labels);
  prometheus::MetricFamily& family = made_->families.back();
  if (family.type == prometheus::MetricType::Counter)
    // The serializer prints the member of the family's type and ignores the others.
    metric.counter.value = value;
  else
    metric.gauge.value = value;
  family.metric.push_back(metric);
}

void Families::add(const std::vector<Bucket>& buckets, std::uint64_t total, double sum,
                   const Labels& labels) {
  prometheus::ClientMetric metric = labelled(labels);
  // Prometheus wants each bucket to count all smaller values, too. The serializer adds +Inf from
  // sample_count.
  std::uint64_t cumulative = 0;
  for (const Bucket& bucket : buckets) {
    cumulative += bucket.count;
    metric.histogram.bucket.push_back({cumulative, bucket.bound});
  }
  metric.histogram.sample_count = total;
  metric.histogram.sample_sum = sum;
  made_->families.back().metric.push_back(metric);
}

std::string Families::text() const {
  std::ostringstream stream;
  prometheus::TextSerializer().Serialize(stream, made_->families);
  return stream.str();
}

}  // namespace larder::pages

// Families: metric families in the order of their creation, and their Prometheus text. begin() or a
// named gauge or counter starts a family; each add() gives the last family one more row.
// Thread-compatible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace larder::pages {

inline constexpr double kNs = 1e9, kMs = 1e3;  // parts of a second

enum class MetricType { kCounter, kGauge, kHistogram };
using Labels = std::vector<std::pair<std::string, std::string>>;

class Families {
 public:
  Families();
  ~Families();

  // `name`: without "larder_".
  void begin(MetricType type, const std::string& name, const std::string& help);
  // REQUIRES: a counter or a gauge has begun.
  void add(double value, const Labels& labels = {});
  void add(std::uint64_t value, const Labels& labels = {}) {
    add(static_cast<double>(value), labels);
  }
  // `parts`: parts of the metric's unit in one unit, for example kNs for a histogram of
  // nanoseconds. Division by 1e9 rounds once; a multiplication by 1e-9 would round twice and print
  // ugly bounds.
  // REQUIRES: a histogram has begun.
  template <typename Counts>
  void add(const Counts& counts, const Labels& labels, double parts) {
    std::vector<Bucket> buckets;
    for (std::size_t i = 0; i < Counts::kBuckets; ++i)
      buckets.push_back({counts.count(i), static_cast<double>(counts.bound(i)) / parts});
    add(buckets, counts.total(), static_cast<double>(counts.sum()) / parts, labels);
  }

  void gauge(const std::string& name, const std::string& help, std::uint64_t value,
             const Labels& labels = {}) {
    begin(MetricType::kGauge, name, help);
    add(value, labels);
  }
  void counter(const std::string& name, const std::string& help, std::uint64_t value) {
    begin(MetricType::kCounter, name, help);
    add(value);
  }

  std::string text() const;

 private:
  struct Bucket {
    std::uint64_t count;  // of this bucket alone; Prometheus wants cumulative counts
    double bound;
  };
  void add(const std::vector<Bucket>& buckets, std::uint64_t total, double sum,
           const Labels& labels);

  struct Made;
  const std::unique_ptr<Made> made_;
};

}  // namespace larder::pages

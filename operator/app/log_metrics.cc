#include "operator/app/log_metrics.h"

#include "sidecar/base/log_drain.h"

namespace larder::app {

std::shared_ptr<void> watch_log(k8s::Metrics& metrics) {
  k8s::Counter& dropped = metrics.counter(
      "larder_log_dropped_lines_total",
      "Log lines of this operator that standard error did not take in time (the reader is "
      "slow or gone) or at all (the disk is full).");
  // The drain counts in the process, and Prometheus needs a counter: the difference since the last
  // scrape is added.
  return metrics.before_text([&dropped] {
    const auto now = static_cast<double>(base::dropped_log_lines());
    if (now > dropped.value()) dropped.add(now - dropped.value());
  });
}

}  // namespace larder::app

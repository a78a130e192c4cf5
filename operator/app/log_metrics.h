// Metrics of the operator's own log. Thread-safe.
#pragma once

#include <memory>

#include "operator/k8s/metrics.h"

namespace larder::app {

// Exports larder_log_dropped_lines_total until the returned pointer is destroyed. `metrics`
// outlives the pointer.
[[nodiscard]] std::shared_ptr<void> watch_log(k8s::Metrics& metrics);

}  // namespace larder::app

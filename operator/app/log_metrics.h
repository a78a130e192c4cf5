// What the operator exports of its own log. Thread-safe.
#pragma once

#include <memory>

#include "operator/k8s/metrics.h"

namespace larder::app {

// larder_log_dropped_lines_total, as long as what is returned lives. `metrics` outlives that.
[[nodiscard]] std::shared_ptr<void> watch_log(k8s::Metrics& metrics);

}  // namespace larder::app

#include "operator/app/review_metrics.h"

namespace larder::app {

ReviewMetrics::ReviewMetrics(k8s::Metrics& metrics, const std::string& path)
    : metrics_(metrics),
      path_(path),
      under_way_(metrics.gauge("controller_runtime_webhook_requests_in_flight",
                               "Current number of admission requests being served.", {{"webhook", path}})),
      seconds_(metrics.histogram("controller_runtime_webhook_latency_seconds",
                                 "Histogram of the latency of processing admission requests", k8s::kTimeBuckets,
                                 {{"webhook", path}})) {
  // There from the start: a rate needs a zero to begin from.
  for (const char* code : {"200", "400", "500"})
    metrics.counter("controller_runtime_webhook_requests_total", "Total number of admission requests by HTTP status code.",
                    {{"webhook", path}, {"code", code}});
}

void ReviewMetrics::begun() {
  under_way_.add(1);
}

void ReviewMetrics::ended(int http_status, double seconds) {
  under_way_.add(-1);
  seconds_.observe(seconds);
  metrics_
      .counter("controller_runtime_webhook_requests_total", "Total number of admission requests by HTTP status code.",
               {{"webhook", path_}, {"code", std::to_string(http_status)}})
      .add();
}

}  // namespace larder::app

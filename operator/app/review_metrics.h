// ReviewMetrics: what the webhook does, under controller-runtime's names. Thread-safe.
#pragma once

#include "operator/k8s/metrics.h"
#include "operator/webhook/admission_server.h"

namespace larder::app {

class ReviewMetrics final : public webhook::ReviewWatcher {
 public:
  // `metrics` outlives it. `path`: the label `webhook`.
  ReviewMetrics(k8s::Metrics& metrics, const std::string& path);
  void begun() override;
  void ended(int http_status, double seconds) override;

 private:
  k8s::Metrics& metrics_;
  const std::string path_;
  k8s::Gauge& under_way_;
  k8s::Histogram& seconds_;
};

}  // namespace larder::app

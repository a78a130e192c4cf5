// WebhookMetrics: metrics of reviews with the names of controller-runtime, and of clients and
// certificate with names of Larder. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "operator/k8s/metrics.h"
#include "operator/webhook/admission_server.h"
#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

class WebhookMetrics final : public ReviewWatcher {
 public:
  // The arguments outlive the object. `path`: the label `webhook`, as in controller-runtime.
  WebhookMetrics(k8s::Metrics& metrics, const std::string& path, const TlsAcceptor& acceptor);

  void begun() override { in_flight_.add(1); }
  void ended(int http_status, double seconds) override;

  // Counts a pod that requested a pool and got no injection.
  void left_alone(Refusal kind);

  // Adds the server's counts of bad clients. `counters` outlives this object.
  void watch(k8s::Metrics& metrics, const http::Counters& counters);

 private:
  k8s::Histogram& latency_;
  k8s::Gauge& in_flight_;
  k8s::Counter &ok_, &refused_, &busy_;  // by code: 200, 400, 503
  std::map<Refusal, k8s::Counter*> not_injected_;
  std::shared_ptr<void> certificate_, clients_;
};

}  // namespace larder::webhook

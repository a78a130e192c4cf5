// HttpPages: GET /metrics on one address, /healthz and /readyz on another. Owns its threads;
// thread-safe.
#pragma once

#include <memory>
#include <string>

#include "operator/k8s/health.h"
#include "operator/k8s/metrics.h"
#include "sidecar/base/clock.h"
#include "sidecar/http/endpoint.h"

namespace larder::app {

class HttpPages {
 public:
  // `metrics`, `health` and `clock` outlive the pages. `setting` names the address in errors.
  static Result<std::unique_ptr<HttpPages>> metrics_at(const std::string& address,
                                                       k8s::Metrics& metrics,
                                                       const base::Clock& clock);
  static Result<std::unique_ptr<HttpPages>> health_at(const std::string& address,
                                                      const k8s::HealthChecks& health,
                                                      const base::Clock& clock);

  // "HOST:PORT" with the port in use.
  const std::string& address() const { return endpoint_->address(); }

 private:
  static Result<std::unique_ptr<HttpPages>> serve(const std::string& setting,
                                                  const std::string& address,
                                                  http::Endpoint::Respond respond,
                                                  const base::Clock& clock);
  http::Counters counters_;
  std::unique_ptr<http::Endpoint> endpoint_;
};

}  // namespace larder::app

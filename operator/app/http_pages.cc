#include "operator/app/http_pages.h"

#include "sidecar/config/values.h"
#include "sidecar/http/answer.h"

namespace larder::app {

// The error of a wrong address names the flag, since the parser knows only the text.
Result<std::unique_ptr<HttpPages>> HttpPages::serve(const std::string& setting,
                                                    const std::string& address,
                                                    http::Endpoint::Respond respond,
                                                    const base::Clock& clock) {
  const Result<config::ListenAddress> parsed = config::parse_listen(address);
  if (!parsed.ok())
    return Status(Code::kInvalidArgument, setting + " '" + address + "' " + parsed.status().text());
  Result<http::Listener> listener = http::listen_tcp(*parsed, setting);
  if (!listener.ok()) return listener.status();
  auto pages = std::make_unique<HttpPages>();
  // The default limits of the endpoint bound connections and bytes: any pod of the cluster may
  // connect.
  pages->endpoint_ = std::make_unique<http::Endpoint>(std::move(*listener), http::Limits{},
                                                      std::move(respond), clock, pages->counters_);
  return pages;
}

Result<std::unique_ptr<HttpPages>> HttpPages::metrics_at(const std::string& address,
                                                         k8s::Metrics& metrics,
                                                         const base::Clock& clock) {
  return serve(
      "--metrics-address", address,
      [&metrics](const std::string& request) {
        const std::string_view target = k8s::get_target(request);
        // Prometheus may add parameters of its scrape configuration.
        if (target.substr(0, target.find('?')) != "/metrics")
          return http::plain_answer(404, "GET /metrics");
        // The answer ends the connection: an idle scraper holds no place of the endpoint.
        return http::whole_answer(200, k8s::Metrics::kContentType, metrics.text(), false);
      },
      clock);
}

Result<std::unique_ptr<HttpPages>> HttpPages::health_at(const std::string& address,
                                                        const k8s::HealthChecks& health,
                                                        const base::Clock& clock) {
  return serve(
      "--health-address", address,
      [&health](const std::string& request) {
        const k8s::Page page = health.page(k8s::get_target(request));
        return http::whole_answer(page.status, page.content_type, page.body, false);
      },
      clock);
}

}  // namespace larder::app

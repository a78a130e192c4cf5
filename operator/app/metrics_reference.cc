#include "operator/app/metrics_reference.h"

#include "operator/app/log_metrics.h"
#include "operator/k8s/event_recorder.h"
#include "operator/k8s/http_client.h"
#include "operator/k8s/leader_election.h"
#include "operator/reconcile/controller.h"
#include "operator/reconcile/pool_metrics.h"
#include "operator/webhook/webhook_metrics.h"
#include "sidecar/base/log.h"
#include "sidecar/http/metrics_page.h"

namespace larder::app {
namespace {

// Refuses every request, so that no API server is needed.
// The reference is made from the real makers of metrics: a metric cannot be missing in the docs.
class NoTransport final : public k8s::Transport {
 public:
  Result<k8s::Response> exchange(const k8s::Request&) override {
    return Status(Code::kFailedPrecondition, "no server is asked");
  }
  Result<k8s::Response> stream(const k8s::Request&,
                               const std::function<bool(std::string_view)>&) override {
    return Status(Code::kFailedPrecondition, "no server is asked");
  }
};

// The text of all metrics of the operator, one maker after the other.
std::string exported() {
  k8s::Metrics metrics;
  const base::MonotonicClock clock;
  NoTransport transport;
  k8s::HttpClient client(transport, clock, {.metrics = &metrics});
  // One failed request makes the series of rest_client_requests_total.
  [[maybe_unused]] const Result<api::Object> asked = client.get_path("/version");
  const k8s::EventRecorder events(client, "replica", clock, metrics);
  const k8s::LeaderElection election(
      client, {.ns = "namespace", .name = "larder-operator", .identity = "replica"}, clock, clock,
      metrics, [](bool) {});
  const webhook::TlsAcceptor acceptor;
  webhook::WebhookMetrics reviews(metrics, "/mutate-v1-pod", acceptor);
  const std::shared_ptr<void> log = watch_log(metrics);
  const http::Counters counters;
  reviews.watch(metrics, counters);
  reconcile::PoolMetrics pools(metrics);
  pools.tell({"namespace", "pool"}, reconcile::PoolSums{}, false);
  std::string text;
  // The text of the second queue has the series of both.
  for (const char* name : {"cachepool", "cachebackend"}) {
    const std::unique_ptr<k8s::WorkQueue> queue = k8s::WorkQueue::make(name, clock, &metrics);
    const reconcile::Controller controller(
        name, *queue, metrics, 0,
        [](const k8s::Key&, const std::stop_token&) { return reconcile::Done{}; });
    text = metrics.text();
  }
  return text;
}

}  // namespace

std::string metrics_reference() {
  base::set_log_level(base::LogLevel::kError);  // no warnings about NoTransport
  constexpr http::OpenLabel kOpen[] = {{"code", "HTTP status, or `<error>`: no answer"},
                                       {"method", "HTTP's"},
                                       {"namespace", "of each CachePool"},
                                       {"pool", "name of each CachePool"}};
  return R"(
## larder-operator

Every replica exports the metrics of the webhook, of requests and of Events. Only the leader exports
`larder_pool_*` and the metrics of work queues and controllers.

)" + http::metrics_table(exported(), kOpen);
}

}  // namespace larder::app

#include "operator/webhook/webhook_metrics.h"

namespace larder::webhook {
namespace {

// Names of controller-runtime, so existing dashboards fit. The series exist from the start: an
// alert on a rate needs a first value.
k8s::Counter& requests(k8s::Metrics& metrics, const std::string& path, const char* code) {
  return metrics.counter("controller_runtime_webhook_requests_total",
                         "Admission requests by HTTP status code",
                         {{"webhook", path}, {"code", code}});
}

}  // namespace

WebhookMetrics::WebhookMetrics(k8s::Metrics& metrics, const std::string& path,
                               const TlsAcceptor& acceptor)
    : latency_(metrics.histogram("controller_runtime_webhook_latency_seconds",
                                 "Latency of admission requests, in seconds", k8s::kTimeBuckets,
                                 {{"webhook", path}})),
      in_flight_(metrics.gauge("controller_runtime_webhook_requests_in_flight",
                               "Admission requests being served", {{"webhook", path}})),
      ok_(requests(metrics, path, "200")),
      refused_(requests(metrics, path, "400")),
      busy_(requests(metrics, path, "503")) {
  k8s::Gauge& not_after = metrics.gauge("larder_webhook_certificate_expiry_timestamp_seconds",
                                        "End of the served certificate's validity, in seconds "
                                        "since 1970; 0: the webhook serves no certificate yet");
  // Every reason has its series from the start; the reasons are a fixed list.
  for (const auto& [kind, reason] : kRefusals)
    not_injected_[kind] = &metrics.counter(
        "larder_pods_not_injected_total",
        "Pods that request a pool but start without the cache, by reason", {{"reason", reason}});
  certificate_ = metrics.before_text(
      [&not_after, &acceptor] { not_after.set(static_cast<double>(acceptor.not_after_s())); });
}

void WebhookMetrics::ended(int http_status, double seconds) {
  in_flight_.add(-1);
  latency_.observe(seconds);
  (http_status == 200 ? ok_ : http_status == 503 ? busy_ : refused_).add();
}

// An unknown kind counts nowhere: the map holds all kinds of kRefusals.
void WebhookMetrics::left_alone(Refusal kind) {
  if (const auto found = not_injected_.find(kind); found != not_injected_.end())
    found->second->add();
}

// The endpoint counts in atomics, without a lock in its loop; the scrape copies the growth.
void WebhookMetrics::watch(k8s::Metrics& metrics, const http::Counters& counters) {
  struct Watched {
    k8s::Counter& counter;
    const std::atomic<std::uint64_t>& count;
  };
  const auto watched = [&](const char* how, const std::atomic<std::uint64_t>& count) {
    return Watched{metrics.counter("larder_webhook_connections_ended_total",
                                   "Connections that the webhook ended, by reason. refused: the "
                                   "request is invalid; timed_out: "
                                   "too slow; crowded_out: too many connections",
                                   {{"reason", how}}),
                   count};
  };
  const std::vector<Watched> all{watched("refused", counters.refused),
                                 watched("timed_out", counters.timed_out),
                                 watched("crowded_out", counters.crowded_out)};
  clients_ = metrics.before_text([all] {
    for (const Watched& one : all)
      one.counter.add(static_cast<double>(one.count) - one.counter.value());
  });
}

}  // namespace larder::webhook

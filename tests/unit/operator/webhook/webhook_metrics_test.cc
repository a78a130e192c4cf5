#include "operator/webhook/webhook_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/unit/operator/webhook/serving.h"

namespace larder::webhook {
namespace {

using testing::HasSubstr;

TEST(WebhookMetricsTest, AllSeriesStartAtZero) {
  k8s::Metrics metrics;
  TlsAcceptor acceptor;
  WebhookMetrics webhook(metrics, "/mutate-v1-pod", acceptor);
  http::Counters counters;
  webhook.watch(metrics, counters);
  const std::string text = metrics.text();
  EXPECT_THAT(
      text,
      HasSubstr(
          "controller_runtime_webhook_requests_total{code=\"200\",webhook=\"/mutate-v1-pod\"} 0"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "controller_runtime_webhook_requests_total{code=\"503\",webhook=\"/mutate-v1-pod\"} 0"));
  EXPECT_THAT(
      text,
      HasSubstr("controller_runtime_webhook_latency_seconds_count{webhook=\"/mutate-v1-pod\"} 0"));
  EXPECT_THAT(
      text,
      HasSubstr("controller_runtime_webhook_requests_in_flight{webhook=\"/mutate-v1-pod\"} 0"));
  EXPECT_THAT(text, HasSubstr("larder_pods_not_injected_total{reason=\"no_pool\"} 0"));
  EXPECT_THAT(text, HasSubstr("larder_webhook_certificate_expiry_timestamp_seconds 0"));
  EXPECT_THAT(text, HasSubstr("larder_webhook_connections_ended_total{reason=\"crowded_out\"} 0"));
}

TEST(WebhookMetricsTest, PodsWithoutCacheAreCountedByReason) {
  k8s::Metrics metrics;
  TlsAcceptor acceptor;
  WebhookMetrics webhook(metrics, "/mutate-v1-pod", acceptor);
  for (const auto& [kind, reason] : kRefusals) webhook.left_alone(kind);
  webhook.left_alone(Refusal::kEngine);
  webhook.left_alone(Refusal::kNone);
  EXPECT_THAT(metrics.text(), HasSubstr("larder_pods_not_injected_total{reason=\"engine\"} 2"));
  EXPECT_THAT(metrics.text(), HasSubstr("larder_pods_not_injected_total{reason=\"unreadable\"} 1"));
}

TEST(WebhookMetricsTest, CountsServerActivity) {
  k8s::Metrics metrics;
  Serving serving;
  serving.serve_leaf();
  WebhookMetrics webhook(metrics, "/mutate-v1-pod", serving.acceptor);
  serving.start(
      [](std::string_view body, std::string_view) {
        return Reviewed{body == "bad" ? 400 : 200, "x"};
      },
      {}, &webhook);
  webhook.watch(metrics, serving.server->counters());
  TlsClient client = serving.connect();
  EXPECT_EQ(client.review("good"), "x");
  EXPECT_EQ(client.review("bad"), "");
  EXPECT_EQ(client.review("good"), "x");
  client.ask("nonsense\r\nContent-Length: 99999999999\r\n\r\n");
  std::string text;
  for (int i = 0; i < 1000 && text.find("in_flight{webhook=\"/mutate-v1-pod\"} 0") == text.npos;
       ++i) {
    // an answer is counted after its send
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    text = metrics.text();
  }
  EXPECT_THAT(text, HasSubstr("requests_total{code=\"200\",webhook=\"/mutate-v1-pod\"} 2"));
  EXPECT_THAT(text, HasSubstr("requests_total{code=\"400\",webhook=\"/mutate-v1-pod\"} 1"));
  EXPECT_THAT(text, HasSubstr("latency_seconds_count{webhook=\"/mutate-v1-pod\"} 3"));
  EXPECT_THAT(text, HasSubstr("requests_in_flight{webhook=\"/mutate-v1-pod\"} 0"));
  EXPECT_THAT(text, HasSubstr("larder_webhook_connections_ended_total{reason=\"refused\"} 1"));
}

}  // namespace
}  // namespace larder::webhook

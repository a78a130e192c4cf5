#include "operator/k8s/metrics.h"

#include <gtest/gtest.h>

#include <thread>

#include "operator/k8s/health.h"

namespace larder::k8s {
namespace {

bool shows(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(MetricsTest, HandlesAreTheSameForTheSameLabels) {
  Metrics metrics;
  metrics.counter("c_total", "help", {{"a", "1"}}).add();
  metrics.counter("c_total", "help", {{"a", "1"}}).add(2);
  metrics.counter("c_total", "help", {{"a", "2"}}).add();
  metrics.gauge("g", "help").set(4);
  metrics.histogram("h_seconds", "help", {0.1, 1}).observe(0.5);
  const std::string text = metrics.text();
  for (const char* line :
       {"# TYPE c_total counter", R"(c_total{a="1"} 3)", R"(c_total{a="2"} 1)", "g 4",
        R"(h_seconds_bucket{le="0.1"} 0)", R"(h_seconds_bucket{le="1"} 1)", "h_seconds_count 1"})
    EXPECT_TRUE(shows(text, line)) << line << "\n" << text;
}

TEST(MetricsTest, RemovedSeriesAreNotExported) {
  Metrics metrics;
  metrics.gauge("larder_pool_pods", "help", {{"pool", "a"}}).set(1);
  metrics.gauge("larder_pool_pods", "help", {{"pool", "b"}}).set(2);
  metrics.remove_gauge("larder_pool_pods", {{"pool", "a"}});
  metrics.remove_gauge("larder_pool_pods", {{"pool", "never there"}});
  EXPECT_FALSE(shows(metrics.text(), "pool=\"a\""));
  EXPECT_TRUE(shows(metrics.text(), "pool=\"b\""));
  metrics.gauge("larder_pool_pods", "help", {{"pool", "a"}}).set(3);
  EXPECT_TRUE(shows(metrics.text(), R"(larder_pool_pods{pool="a"} 3)"));
}

TEST(MetricsTest, CollectorsRunDuringTheirLifetime) {
  Metrics metrics;
  Gauge& gauge = metrics.gauge("g", "help");
  {
    const auto collecting = metrics.before_text([&] { gauge.add(1); });
    std::ignore = metrics.text();
    EXPECT_TRUE(shows(metrics.text(), "g 2"));
  }
  EXPECT_TRUE(shows(metrics.text(), "g 2"));
}

TEST(MetricsTest, ThreadsMayCountAndReadAtOnce) {
  Metrics metrics;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        for (int j = 0; j < 500; ++j) {
          metrics.counter("c_total", "help", {{"a", std::to_string(j % 3)}}).add();
          if (i == 0 && j % 50 == 0) std::ignore = metrics.text();
        }
      });
  }
  double sum = 0;
  for (const char* label : {"0", "1", "2"})
    sum += metrics.counter("c_total", "help", {{"a", label}}).value();
  EXPECT_EQ(sum, 2'000);
}

TEST(HealthTest, HealthPagesMatchKubernetes) {
  HealthChecks checks;
  EXPECT_EQ(checks.page("/healthz").status, 200);
  bool synced = false;
  checks.add(HealthChecks::Kind::kLive, "ping", [] { return Status(); });
  checks.add(HealthChecks::Kind::kReady, "informers",
             [&] { return synced ? Status() : Status(Code::kUnavailable, "no list yet"); });
  checks.add(HealthChecks::Kind::kReady, "webhook", [] { return Status(); });
  EXPECT_EQ(checks.page("/healthz").body, "ok\n");
  const Page bad = checks.page("/readyz");
  EXPECT_EQ(bad.status, 500);
  EXPECT_EQ(bad.body,
            "[-]informers failed: unavailable: no list yet\n[+]webhook ok\nreadyz check failed\n");
  EXPECT_EQ(checks.page("/readyz/webhook").status, 200);
  EXPECT_EQ(checks.page("/readyz/informers").status, 500);
  EXPECT_EQ(checks.page("/readyz/nothing").status, 404);
  synced = true;
  EXPECT_EQ(checks.page("/readyz").body, "ok\n");
  EXPECT_EQ(checks.page("/readyz?verbose").body,
            "[+]informers ok\n[+]webhook ok\nreadyz check passed\n");
  EXPECT_EQ(checks.page("/").status, 404);
  EXPECT_EQ(checks.page("/readyzzz").status, 404);
  EXPECT_EQ(checks.page("").status, 404);
}

TEST(HealthTest, TargetOfAGetIsParsed) {
  EXPECT_EQ(get_target("GET /readyz?verbose HTTP/1.1\r\nHost: x\r\n\r\n"), "/readyz?verbose");
  EXPECT_EQ(get_target("POST /readyz HTTP/1.1\r\n\r\n"), "");
  EXPECT_EQ(get_target("GET "), "");
  EXPECT_EQ(get_target(""), "");
}

}  // namespace
}  // namespace larder::k8s

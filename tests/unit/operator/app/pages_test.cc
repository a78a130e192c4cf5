#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "operator/app/http_pages.h"
#include "operator/app/switched_fence.h"
#include "shim/base/fd.h"

namespace larder::app {
namespace {

std::string get(const std::string& address, const std::string& path,
                const std::string& host = "localhost") {
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)) != 0) return "";
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
  static_cast<void>(::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL));
  std::string answer;
  char bytes[4096];
  for (ssize_t got; (got = ::recv(socket.get(), bytes, sizeof(bytes), 0)) > 0;)
    answer.append(bytes, static_cast<std::size_t>(got));
  return answer;
}

TEST(PagesTest, ServesOperatorMetrics) {
  const base::MonotonicClock clock;
  k8s::Metrics metrics;
  metrics.counter("larder_test_total", "of this test").add();
  const auto pages = HttpPages::metrics_at("127.0.0.1:0", metrics, clock);
  ASSERT_TRUE(pages.ok()) << pages.status().text();
  EXPECT_NE(get((*pages)->address(), "/metrics").find("larder_test_total 1"), std::string::npos);
  EXPECT_TRUE(get((*pages)->address(), "/").starts_with("HTTP/1.1 404"));
}

TEST(PagesTest, HealthFollowsTheChecks) {
  const base::MonotonicClock clock;
  k8s::HealthChecks health;
  bool good = true;
  health.add(k8s::HealthChecks::Kind::kReady, "mood",
             [&] { return good ? Status() : Status(Code::kUnavailable, "bad"); });
  const auto pages = HttpPages::health_at("127.0.0.1:0", health, clock);
  ASSERT_TRUE(pages.ok()) << pages.status().text();
  EXPECT_TRUE(get((*pages)->address(), "/readyz").starts_with("HTTP/1.1 200"));
  EXPECT_TRUE(get((*pages)->address(), "/healthz").starts_with("HTTP/1.1 200"));
  good = false;
  EXPECT_TRUE(get((*pages)->address(), "/readyz").starts_with("HTTP/1.1 500"));
}

// A browser in the cluster's network, on a page with a name for this pod's address.
// covers F-124
TEST(PagesTest, AForeignHostIsRefused) {
  const base::MonotonicClock clock;
  k8s::Metrics metrics;
  const auto pages = HttpPages::metrics_at(":0", metrics, clock);
  ASSERT_TRUE(pages.ok()) << pages.status().text();
  EXPECT_TRUE(get((*pages)->address(), "/metrics", "evil.example").starts_with("HTTP/1.1 421"));
  EXPECT_TRUE(get((*pages)->address(), "/metrics", "10.0.0.7:8080").starts_with("HTTP/1.1 200"))
      << "Prometheus, the kubelet";
  EXPECT_TRUE(get((*pages)->address(), "/metrics", "larder-metrics.larder-system.svc:8080")
                  .starts_with("HTTP/1.1 200"));
}

TEST(PagesTest, InvalidAddressNamesItsFlag) {
  const base::MonotonicClock clock;
  k8s::Metrics metrics;
  const auto wrong = HttpPages::metrics_at("nowhere", metrics, clock);
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.status().text(),
            "--metrics-address 'nowhere' is no address to listen on: HOST:PORT with a port up to "
            "65535, e.g. 127.0.0.1:9464");
  const auto first = HttpPages::metrics_at("127.0.0.1:0", metrics, clock);
  ASSERT_TRUE(first.ok());
  const auto second = HttpPages::metrics_at((*first)->address(), metrics, clock);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().text().find("--metrics-address"), std::string::npos);
}

TEST(SwitchedFenceTest, FenceIsDownWithoutALease) {
  struct Up final : k8s::Fence {
    std::uint64_t left_ms() const override { return 7; }
  };
  SwitchedFence fence;
  EXPECT_EQ(fence.left_ms(), 0U);
  {
    const Up up;
    fence.follow(&up);
    EXPECT_EQ(fence.left_ms(), 7U);
    fence.follow(nullptr);
  }
  EXPECT_EQ(fence.left_ms(), 0U);
}

}  // namespace
}  // namespace larder::app

// Hostile clients of every kind at once: honest reviews are answered all the same, and the server's memory does not grow.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/component/webhook/honest_clients.h"
#include "tests/component/webhook/hostile_clients.h"

namespace larder::component_test {
namespace {

TEST(WebhookHostileTest, HonestReviewsAreAnsweredAndMemoryIsBounded) {
  const WebhookServer server(SERVER_PROCESS);
  ASSERT_NE(server.address(), "");
  const std::vector<std::string> bodies = kserve_reviews(REPOSITORY_ROOT);
  ASSERT_GE(bodies.size(), 7U);
  const Served before = send_reviews(server, bodies, 50, 3);
  EXPECT_EQ(before.failed, 0U) << before.first_failure;
  const double resident_mib = server.resident_mib();

  double most_mib = resident_mib;
  std::jthread watch([&](const std::stop_token& stop) {
    for (; !stop.stop_requested(); std::this_thread::sleep_for(std::chrono::milliseconds(20)))
      most_mib = std::max(most_mib, server.resident_mib());
  });
  const HostileClients hostile(server.address());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const Served beside = send_reviews(server, bodies, 50, 10);
  watch.request_stop();
  watch.join();
  // A flood of new connections crowds out some new ones of the honest (operator/webhook/README.md, "Not true yet"); nobody whose
  // connection is kept notices.
  EXPECT_LE(beside.failed, beside.ms.size() / 3) << beside.first_failure;
  EXPECT_GE(hostile.connections(), 500U);
#ifndef LARDER_SANITIZED  // a sanitizer keeps what is freed
  EXPECT_LE(most_mib - resident_mib, 32) << "from " << resident_mib << " MiB";
#endif
}

}  // namespace
}  // namespace larder::component_test

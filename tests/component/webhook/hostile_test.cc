// Hostile clients of every kind at once: honest reviews are answered all the same, each with its
// right answer, and the server's memory does not grow. `make bench-webhook` measures the speed.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/component/webhook/honest_clients.h"
#include "tests/component/webhook/hostile_clients.h"

namespace larder::component_test {
namespace {

// Beside `flood`, not one of 500 reviews fails, of which a tenth come over new connections.
void expect_all_answered(const HostileClients::Flood& flood) {
  const WebhookServer server(SERVER_PROCESS);
  ASSERT_NE(server.address(), "");
  const std::vector<HonestReview> reviews = kserve_reviews(REPOSITORY_ROOT);
  ASSERT_GE(reviews.size(), 7U);
  const Served before = send_reviews(server, reviews, 50, 3);
  EXPECT_EQ(before.failed, 0U) << before.first_failure;
  const double resident_mib = server.resident_mib();

  double most_mib = resident_mib;
  std::jthread watch([&](const std::stop_token& stop) {
    for (; !stop.stop_requested(); std::this_thread::sleep_for(std::chrono::milliseconds(20)))
      most_mib = std::max(most_mib, server.resident_mib());
  });
  const HostileClients hostile(server.address(), flood);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const Served beside = send_reviews(server, reviews, 50, 10);
  watch.request_stop();
  watch.join();
  EXPECT_EQ(beside.failed, 0U) << beside.first_failure;
  EXPECT_GE(hostile.connections(), static_cast<std::uint64_t>(flood.silent + flood.half_hellos));
#ifndef LARDER_SANITIZED  // a sanitizer keeps freed memory
  EXPECT_LE(most_mib - resident_mib, 32) << "from " << resident_mib << " MiB";
#endif
}

TEST(WebhookHostileTest, HonestReviewsAreAnsweredAndMemoryIsBounded) {
  expect_all_answered({});
}

// More clients than places, of every kind that costs a place: a flooding address crowds itself out.
TEST(WebhookHostileTest, FloodFromAnAddressCostsThatAddressOnly) {
  expect_all_answered({.silent = 1500, .half_hellos = 500, .stopped_handshakes = 300, .from = 2});
}

}  // namespace
}  // namespace larder::component_test

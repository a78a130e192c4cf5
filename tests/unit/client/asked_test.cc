// A client's reports about requests, as larderd understands the reports.
#include <gtest/gtest.h>

#include "tests/unit/client/engine.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using testing_support::EngineClient;
using testing_support::kPlainLayout;

class RequestedHashesTest : public loop::testing_support::SidecarTest {
 protected:
  RequestedHashesTest() { config_.memory.size_bytes = 16 << 20; }
};

TEST_F(RequestedHashesTest, EveryHashOfARequestReachesTheEstimate) {
  start();
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  ASSERT_TRUE(engine.client->wait_namespace(0, 5000).ok());
  EXPECT_TRUE(sidecar_->trace(std::nullopt).requests.empty());
  const Transfer chunks = engine.transfer(0, 7);  // not a multiple of the hashes in an event
  const Hashes hashes = testing_support::hashes_of(chunks.hashes);
  const std::uint64_t tokens = 7 * 10'000;
  for (int i = 0; i < 4; ++i)
    engine.client->report_request(hashes, {tokens, 0, 1000, protocol::Decision::kRecompute});
  ASSERT_TRUE(wait([&] { return stats().estimate.chunks_asked == 28; }));
  const stats::TracePage page = sidecar_->trace(0);
  ASSERT_EQ(page.requests.size(), 4U);
  EXPECT_EQ(page.requests[0].chunks.size(), 7U);
  EXPECT_EQ(page.requests[0].chunks, page.requests[3].chunks);
  EXPECT_EQ(stats().decisions[2], 4U);
  EXPECT_GT(stats().estimate.hits[3].ratio, 0);
}

// The ring's places are written again and again: the salt of one request must not stay for the next
// request in its place.
TEST_F(RequestedHashesTest, OnlySaltedRequestsAreCounted) {
  start();
  EngineClient engine(config_.socket, kPlainLayout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  ASSERT_TRUE(engine.client->wait_namespace(0, 5000).ok());
  const std::uint64_t half = protocol::kEventSlots / 2, rounds = 4;  // two rounds of the ring
  for (std::uint64_t i = 0; i < rounds; ++i) {
    for (std::uint64_t n = 0; n < half; ++n)
      engine.client->report_request({}, {256, 0, 1000, protocol::Decision::kAbsent, i < 2});
    ASSERT_TRUE(wait(
        [&] { return !stats().models.empty() && stats().models[0].requests == (i + 1) * half; }));
  }
  EXPECT_EQ(stats().models[0].requests_salted, 2 * half);
}

}  // namespace
}  // namespace larder::client

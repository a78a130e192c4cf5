// The remote tier over a real network that is far and loses packets: 20 ms each way, 1% of all
// packets, between two namespaces of this machine. A part takes longer there than a server may be
// silent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sidecar/tiers/remote/chunks/remote_tier.h"
#include "tests/component/far_network.h"
#include "tests/component/server_process.h"
#include "tests/component/tier_node.h"
#include "tests/long_form.h"

namespace larder::test {
namespace {

using testing::HasSubstr;
using tiers::testing_support::key_of;
using tiers::testing_support::Slot;

constexpr std::uint64_t kBytes = 1 << 20;

class RemoteNetworkTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (server_program(GetParam()).empty())
      GTEST_SKIP() << "the server is not on this machine: make deps";
    try {
      network_ = std::make_unique<FarNetwork>(20, 1);
    } catch (const std::exception& why) {
      GTEST_SKIP() << "no network between two namespaces here: " << why.what();
    }
    RecordProperty("network", network_->kind());
    options_.host = FarNetwork::kFar;
    options_.port = free_port();
    network_->far([this] {
      server_ = std::make_unique<ServerProcess>(
          GetParam(),
          std::vector<std::string>{"--port", std::to_string(options_.port), "--bind",
                                   FarNetwork::kFar, "127.0.0.1", "--protected-mode", "no"});
    });
    network_->near([this] { node_ = std::make_unique<Node>(options_); });
    ASSERT_TRUE(node_->eventually([this] { return !node_->tier->state().degraded(); }));
  }
  double seconds_since(std::uint64_t start) const {
    return static_cast<double>(node_->clock.now_ns() - start) / static_cast<double>(kSecondNs);
  }
  std::uint64_t degraded() const { return node_->tier->counters().times_degraded; }

  std::unique_ptr<FarNetwork> network_;
  remote::RemoteOptions options_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Node> node_;  // goes before its peer
};

// The loss of 1% makes the network slow: TCP takes each loss for congestion.
// covers F-163
TEST_P(RemoteNetworkTest, DistantServerIsUsedWithoutDegradation) {
  const std::uint64_t chunks = by_form(1, 8), start = node_->clock.now_ns();
  for (std::uint64_t i = 0; i < chunks; ++i)
    EXPECT_EQ(node_->loop.put(i, 1, 1, kBytes).to_string(), "ok") << i;
  const double stored_s = seconds_since(start);
  for (std::uint64_t i = 0; i < chunks; ++i)
    EXPECT_EQ(node_->loop.get(i, 1, kBytes).to_string(), "ok") << i;
  // Of parts more than one.
  const std::uint64_t large = by_form(kBytes, 5 * kBytes);
  EXPECT_EQ(node_->loop.put(100, 1, 1, large).to_string(), "ok");
  EXPECT_EQ(node_->loop.get(100, 1, large).to_string(), "ok");
  const std::vector<tiers::ChunkKey> keys{key_of(0), key_of(100), key_of(200)};
  EXPECT_EQ(node_->loop.probe(keys), (std::vector<bool>{true, true, false}));
  EXPECT_EQ(degraded(), 0U) << "it does not flap";
  RecordProperty("store_bytes_per_s",
                 std::to_string(static_cast<double>(chunks * kBytes) / stored_s));
}

// covers F-163
TEST_P(RemoteNetworkTest, DeadlinesHoldDuringAPartTransfer) {
  const std::uint64_t bytes = by_form(kBytes, 3 * kBytes);
  ASSERT_EQ(node_->loop.put(1, 1, 1, bytes).to_string(), "ok");
  for (int i = 0; i < by_form(2, 20); ++i) {
    Slot slot(protocol::slot_bytes(bytes, tiers::testing_support::kPieceBytes));
    const tiers::Ticket ticket = node_->loop.next();
    const std::uint64_t start = node_->clock.now_ns();
    ASSERT_TRUE(node_->tier->get(ticket, key_of(1), slot.span(), node_->loop.in_ms(150)).ok());
    const std::optional<tiers::Message> message = node_->loop.done(ticket);
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->status.code(), Code::kDeadlineExceeded) << message->status.to_string();
    EXPECT_LT(node_->clock.now_ns() - start, 5 * kSecondNs);
    // No write goes there any more.
    std::memset(slot.span().data(), 0x11, slot.span().size());
    EXPECT_TRUE(node_->loop.probe(std::vector{key_of(1)}).at(0));
    for (const std::byte byte : slot.span()) ASSERT_EQ(byte, std::byte{0x11});
  }
  EXPECT_EQ(degraded(), 0U) << "a short deadline says no word about the server";
}

// covers F-164
TEST_P(RemoteNetworkTest, CutLinkDegradesTierOnceAndTierRecovers) {
  ASSERT_EQ(node_->loop.put(1, 1, 1, kBytes).to_string(), "ok");
  for (int round = 0; round < by_form(1, 8); ++round) {
    const std::uint64_t before = degraded();
    network_->cut(true);
    const std::uint64_t start = node_->clock.now_ns();
    EXPECT_FALSE(node_->loop.get(1, 1, kBytes).ok());
    EXPECT_LT(node_->clock.now_ns() - start, 10 * kSecondNs) << "the deadline is 20 s away";
    EXPECT_TRUE(node_->eventually([this] { return node_->tier->state().degraded(); }));
    EXPECT_THAT(node_->tier->state().reason, HasSubstr("no connection"));
    for (const std::uint64_t end = node_->clock.now_ns() + kSecondNs;
         node_->clock.now_ns() < end;) {
      EXPECT_TRUE(node_->tier->state().degraded());
      node_->loop.collect(5);
    }
    EXPECT_EQ(degraded(), before + 1) << "once";
    network_->cut(false);
    const std::uint64_t back = node_->clock.now_ns();
    EXPECT_TRUE(node_->well());
    // An attempt under way fails first, and an attempt with a lost SYN.
    EXPECT_LT(node_->clock.now_ns() - back, 5 * kSecondNs);
    EXPECT_EQ(node_->loop.get(1, 1, kBytes).to_string(), "ok");
    EXPECT_EQ(degraded(), before + 1) << "it does not flap";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Servers, RemoteNetworkTest, testing::Values("redis-server", "valkey-server"),
    [](const auto& kind) {
      return std::string(kind.param).substr(0, std::string(kind.param).find('-'));
    });

}  // namespace
}  // namespace larder::test

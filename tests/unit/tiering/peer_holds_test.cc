// Chunks in memory that peers ask for: found by id, kept while they are held,
// within a sixteenth of the memory.
#include "sidecar/tiering/peer_holds.h"

#include <gtest/gtest.h>

#include "tests/unit/store/store_fixture.h"

namespace larder::tiering::testing_support {
namespace {

using store::testing_support::StoreBox;

class PeerHoldsTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kSlots = 64;  // four of them may be held
  PeerHoldsTest() {
    box_.add_session(1);
    peer::ServerOptions options;
    options.self = peer::make_instance("chat", 1);
    options.listen = {"127.0.0.1", 0};
    Result<std::unique_ptr<peer::PeerServer>> server = peer::PeerServer::start(clock_, options);
    EXPECT_TRUE(server.ok()) << server.status().to_string();
    exchange_ = &(*server)->exchange();
    (*server)->stop();  // its thread takes no reply from the test
    holds_ = std::make_unique<PeerHolds>(*std::move(server), box_.store(),
                                         kSlots * StoreBox::kSlotBytes);
  }
  tiers::ChunkKey chunk(std::uint64_t n) {
    return {box_.store().namespaces().at(box_.handle()).spec.id, box_.key(n).hash, 0, 0};
  }
  std::vector<std::optional<peer::HeldChunk>> ask(const std::vector<tiers::ChunkKey>& keys,
                                                  bool hold = true, bool read = false) {
    EXPECT_TRUE(exchange_->ask({7, keys, hold, read}));
    holds_->deliver();
    while (holds_->go_on()) {
    }
    const std::vector<peer::HoldReply> replies = exchange_->take_replies();
    EXPECT_EQ(replies.size(), 1U);
    EXPECT_EQ(replies.front().connection, 7U);
    return replies.front().chunks;
  }
  void give_back(const std::vector<peer::HeldChunk>& chunks) {
    exchange_->give_back(chunks);
    holds_->deliver();
  }

  base::MonotonicClock clock_;
  StoreBox box_{kSlots};
  peer::HoldExchange* exchange_ = nullptr;
  std::unique_ptr<PeerHolds> holds_;
};

TEST_F(PeerHoldsTest, ReportsChunksInMemoryAndHoldsThem) {
  box_.put(1, 1);
  const auto chunks = ask({chunk(1), chunk(2)});
  ASSERT_EQ(chunks.size(), 2U);
  ASSERT_TRUE(chunks[0].has_value());
  EXPECT_FALSE(chunks[1].has_value());
  EXPECT_TRUE(chunks[0]->held);
  EXPECT_EQ(chunks[0]->facts.payload_bytes, 4096U);
  EXPECT_EQ(chunks[0]->facts.root, box_.find(1)->root);
  EXPECT_EQ(chunks[0]->slot.data(), box_.arena() + box_.find(1)->offset_bytes);
  EXPECT_EQ(box_.filled().kept_bytes, StoreBox::kSlotBytes);
  give_back({*chunks[0]});
  EXPECT_EQ(box_.filled().kept_bytes, 0U);
}

TEST_F(PeerHoldsTest, WithoutHoldChunksAreNotKept) {
  box_.put(1, 1);
  const auto chunks = ask({chunk(1)}, false);
  ASSERT_TRUE(chunks[0].has_value());
  EXPECT_FALSE(chunks[0]->held);
  EXPECT_EQ(box_.filled().kept_bytes, 0U);
}

// covers F-268
TEST_F(PeerHoldsTest, PeersHoldASixteenthOfTheMemoryAtMost) {
  std::vector<tiers::ChunkKey> keys;
  for (std::uint64_t n = 1; n <= 10; ++n) {
    box_.put(1, n);
    keys.push_back(chunk(n));
  }
  const auto chunks = ask(keys);
  std::vector<peer::HeldChunk> held;
  for (const auto& one : chunks) {
    ASSERT_TRUE(one.has_value()) << "there, held or not";
    if (one->held) held.push_back(*one);
  }
  EXPECT_EQ(held.size(), 4U);
  give_back(held);
  EXPECT_TRUE(ask({chunk(10)})[0]->held) << "room again";
}

// A look at one chunk once held up to a quarter.
// covers F-268
TEST_F(PeerHoldsTest, RepeatedSingleChunkProbesStayWithinTheHoldLimit) {
  std::size_t held = 0, read = 0;
  for (std::uint64_t n = 1; n <= 20; ++n) {
    box_.put(1, n);
    held += ask({chunk(n)})[0]->held ? 1 : 0;
  }
  EXPECT_EQ(held, 4U);
  for (std::uint64_t n = 1; n <= 20; ++n) read += ask({chunk(n)}, true, true)[0]->held ? 1 : 0;
  EXPECT_EQ(held + read, 16U) << "with reads a quarter";
}

// covers F-268
TEST_F(PeerHoldsTest, UnansweredRequestsAreBounded) {
  std::size_t asked = 0;
  while (exchange_->ask({7, {chunk(1)}, false}) && asked < 10'000) ++asked;
  EXPECT_EQ(asked, peer::HoldExchange::kMostOpen);
  holds_->deliver();
  EXPECT_FALSE(exchange_->ask({7, {chunk(1)}, false})) << "taken, and not answered";
  while (holds_->go_on()) {
  }
  EXPECT_TRUE(exchange_->ask({7, {chunk(1)}, false}));
}

TEST_F(PeerHoldsTest, UnopenedNamespaceHasNoChunk) {
  box_.put(1, 1);
  tiers::ChunkKey key = chunk(1);
  key.namespace_id = protocol::namespace_id("field: another\n");
  EXPECT_FALSE(ask({key})[0].has_value());
}

}  // namespace
}  // namespace larder::tiering::testing_support

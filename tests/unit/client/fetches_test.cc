// Fetches: the request, the result and the release; and the view of the lower tier without a
// question.
#include "shim/client/fetches.h"

#include <gtest/gtest.h>

#include "tests/unit/client/engine.h"
#include "tests/unit/client/fake_session.h"

namespace larder::client {
namespace {

using protocol::FetchEnd;
using protocol::MessageType;
using testing_support::FakeSession;
using testing_support::hash_of;
using testing_support::hashes_of;
using testing_support::some_hashes;

constexpr std::uint64_t kTier = protocol::kCapabilityAct | protocol::kCapabilityResidency;

class FetchesTest : public testing::Test {
 protected:
  // The ticket of a fetch that larderd has been asked for.
  std::uint64_t start(std::uint64_t count) {
    const auto hashes = some_hashes(count);
    const Result<std::uint64_t> ticket =
        fetches_.start(session_.attachment, hashes_of(hashes), 60'000);
    EXPECT_TRUE(ticket.ok()) << ticket.status().to_string();
    asked_ = session_.receive<protocol::Fetch, protocol::BlockHash>(MessageType::kFetch, &request_);
    return ticket.ok() ? *ticket : 0;
  }
  void answer(std::uint32_t families, FetchEnd reason) {
    fetches_.answered(session_.attachment, request_,
                      {families, static_cast<std::uint32_t>(reason), 4096, 7, 0});
  }

  FakeSession session_{kTier};
  Fetches fetches_;
  std::vector<protocol::BlockHash> asked_;
  std::uint32_t request_ = 0;
};

TEST_F(FetchesTest, AnsweredFetchReportsItsChunksAndIsReleased) {
  const std::uint64_t ticket = start(5);
  EXPECT_EQ(asked_, some_hashes(5));
  answer(3, FetchEnd::kAbsent);
  const Result<FetchState> done = fetches_.poll(ticket, 5000);
  ASSERT_TRUE(done.ok() && !done->running);
  EXPECT_EQ(done->chunks, 3U);
  EXPECT_EQ(done->reason, FetchEnd::kAbsent);
  EXPECT_EQ(done->bytes, 4096U);
  EXPECT_EQ(done->elapsed_us, 7U);
  EXPECT_TRUE(session_.silent()) << "larderd keeps them until it is told";
  fetches_.end(ticket);
  EXPECT_EQ(session_.receive_one<protocol::EndFetch>(MessageType::kFetchEnd).request, request_);
  fetches_.end(ticket);
  EXPECT_TRUE(session_.silent());
}

TEST_F(FetchesTest, RunningFetchIsCancelled) {
  fetches_.end(start(5));
  EXPECT_EQ(session_.receive_one<protocol::EndFetch>(MessageType::kFetchEnd).request, request_);
}

TEST_F(FetchesTest, FetchOfLostSessionSendsNoMessage) {
  const std::uint64_t ticket = start(2);
  fetches_.lost(session_.attachment);
  fetches_.end(ticket);
  EXPECT_TRUE(session_.silent());
}

TEST_F(FetchesTest, AnswerOverTheRequestIsClamped) {
  const std::uint64_t ticket = start(2);
  answer(UINT32_MAX, FetchEnd::kAll);
  EXPECT_EQ(fetches_.poll(ticket, 0)->chunks, 2U);
}

TEST(FetchesWithoutLowerTier, AreRefusedWithoutMessage) {
  FakeSession old;
  Fetches fetches;
  const auto hashes = some_hashes(1);
  EXPECT_EQ(fetches.start(old.attachment, hashes_of(hashes), 1000).status().code(),
            Code::kUnsupported);
  EXPECT_TRUE(old.silent());
}

class ReachableTest : public testing::Test {
 protected:
  ReachableTest() { spec_.id = protocol::namespace_id("some\n"); }
  std::size_t reachable(std::uint64_t count) {
    const auto hashes = some_hashes(count);
    const std::vector<Part> parts{{0, 0}, {0, 1}, {1, 0}, {1, 1}};
    return count_reachable(*session_.attachment, parts, hashes_of(hashes), spec_.id);
  }
  void show(std::uint64_t number, int parts) {
    for (int part = 0; part < parts; ++part)
      session_.show_below(spec_.id, hash_of(number), static_cast<std::uint16_t>(part / 2),
                          static_cast<std::uint16_t>(part % 2));
  }

  FakeSession session_{kTier};
  NamespaceSpec spec_;
};

TEST_F(ReachableTest, ChunkIsReachableWhenAllShardsAndGroupsAre) {
  EXPECT_EQ(reachable(8), 0U);
  for (std::uint64_t n = 0; n < 20; ++n) show(n, 4);
  EXPECT_EQ(reachable(8), 8U);
  EXPECT_EQ(reachable(30), 20U);
  show(20, 3);
  show(21, 4);
  EXPECT_EQ(reachable(30), 20U) << "a hole ends it";
}

TEST_F(ReachableTest, ChunksOfOtherNamespacesAreNotReachable) {
  show(0, 4);
  spec_.id = protocol::namespace_id("other\n");
  EXPECT_EQ(reachable(1), 0U);
}

TEST(ResidencyFilter, InvalidRegionIsRefused) {
  std::vector<std::byte> bytes(protocol::residency_bytes(protocol::kLeastResidencyBuckets));
  EXPECT_FALSE(protocol::ResidencyReader::open(bytes.data(), bytes.size()).ok());
  EXPECT_FALSE(protocol::ResidencyReader().valid());
}

}  // namespace
}  // namespace larder::client

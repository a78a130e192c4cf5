// Prefetch, pin, unpin, evict and demote: the request, the wait, and larderd's result.
#include "shim/client/acts.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/client/engine.h"
#include "tests/unit/client/fake_session.h"
#include "tests/unit/loop/sidecar_fixture.h"

namespace larder::client {
namespace {

using protocol::Verb;
using testing_support::EngineClient;
using testing_support::FakeSession;
using testing_support::hashes_of;
using testing_support::PageLayout;
using testing_support::some_hashes;

class ActsTest : public testing::Test {
 protected:
  // The next ACT, answered as if all but `absent` hashes were there. Returns the number of hashes.
  std::size_t answer(std::uint32_t absent = 0) {
    std::uint32_t request = 0;
    const auto hashes =
        session_.receive<protocol::Act, protocol::BlockHash>(protocol::MessageType::kAct, &request);
    acts_.acted(request, {2, static_cast<std::uint32_t>(hashes.size()) - absent, absent, 1});
    return hashes.size();
  }

  FakeSession session_;
  Acts acts_;
};

TEST_F(ActsTest, ManyHashesAreSplitIntoMessagesAndCountsSummed) {
  const auto hashes = some_hashes(2500);
  std::size_t asked = 0;
  std::thread larderd([&] {
    for (const std::uint32_t absent : {0U, 10U, 5U}) asked += answer(absent);
  });
  const Result<protocol::ActCounts> counts =
      acts_.run(session_.attachment, Verb::kPin, hashes_of(hashes), 5000);
  larderd.join();
  ASSERT_TRUE(counts.ok()) << counts.status().to_string();
  EXPECT_EQ(asked, 2500U);
  EXPECT_EQ(counts->found, 2485U);
  EXPECT_EQ(counts->absent, 15U);
  EXPECT_EQ(counts->refused, 3U);
}

Verb sent_verb(FakeSession& session, std::vector<protocol::BlockHash>& hashes,
               std::uint32_t* request = nullptr) {
  protocol::Act head{};
  hashes = session.receive<protocol::Act, protocol::BlockHash>(protocol::MessageType::kAct, request,
                                                               &head);
  return static_cast<Verb>(head.verb);
}

TEST_F(ActsTest, OlderLarderdPrefetchesAllHashes) {
  const auto hashes = some_hashes(3);
  std::vector<protocol::BlockHash> sent;
  for (const std::uint32_t minor : {6U, 7U}) {
    FakeSession session(protocol::kCapabilityAct, minor);
    ASSERT_TRUE(acts_.run(session.attachment, Verb::kPrefetchLast, hashes_of(hashes), 0).ok());
    EXPECT_EQ(sent_verb(session, sent), minor < 7 ? Verb::kPrefetch : Verb::kPrefetchLast);
    EXPECT_EQ(sent, hashes);
  }
}

// covers F-477
TEST_F(ActsTest, OlderLarderdDemotesNoChunk) {
  const auto hashes = some_hashes(3);
  std::vector<protocol::BlockHash> sent;
  FakeSession older(protocol::kCapabilityAct, 9), session(protocol::kCapabilityAct, 10);
  EXPECT_EQ(acts_.run(older.attachment, Verb::kDemote, hashes_of(hashes), 0).status().code(),
            Code::kUnsupported);
  EXPECT_TRUE(older.silent()) << "an unknown verb would end the session";
  ASSERT_TRUE(acts_.run(session.attachment, Verb::kDemote, hashes_of(hashes), 0).ok());
  EXPECT_EQ(sent_verb(session, sent), Verb::kDemote);
  EXPECT_EQ(sent, hashes);
}

TEST_F(ActsTest, PrefetchLastSendsOnlyTheLastHash) {
  FakeSession session(protocol::kCapabilityAct, 7);
  const auto hashes = some_hashes(2500);
  std::vector<protocol::BlockHash> sent;
  std::thread larderd([&] {
    std::uint32_t request = 0;
    EXPECT_EQ(sent_verb(session, sent, &request), Verb::kPrefetchLast);
    acts_.acted(request, {5, 1, 1023, 0});
  });
  const Result<protocol::ActCounts> counts =
      acts_.run(session.attachment, Verb::kPrefetchLast, hashes_of(hashes), 5000);
  larderd.join();
  ASSERT_TRUE(counts.ok()) << counts.status().to_string();
  EXPECT_EQ(sent, std::vector(hashes.end() - 1024, hashes.end()));
  EXPECT_TRUE(session.silent());
  EXPECT_EQ(counts->found, 1U);
  EXPECT_EQ(counts->absent, 2499U) << "the hashes before count as absent";
}

TEST_F(ActsTest, CallWithoutDeadlineStillSendsTheMessage) {
  const auto hashes = some_hashes(3);
  EXPECT_TRUE(acts_.run(session_.attachment, Verb::kPrefetch, hashes_of(hashes), 0).ok());
  EXPECT_EQ(answer(), 3U);
}

TEST_F(ActsTest, MissingAnswerEndsAtTheDeadlineAndALateOneIsIgnored) {
  const auto hashes = some_hashes(3);
  EXPECT_EQ(acts_.run(session_.attachment, Verb::kPin, hashes_of(hashes), 1).status().code(),
            Code::kDeadlineExceeded);
  EXPECT_EQ(answer(), 3U);
  EXPECT_EQ(acts_.run(nullptr, Verb::kPin, hashes_of(hashes), 1).status().code(),
            Code::kUnavailable);
}

TEST_F(ActsTest, ALostSessionEndsTheWait) {
  const auto hashes = some_hashes(3);
  std::thread loser([&] {
    session_.receive<protocol::Act, protocol::BlockHash>(protocol::MessageType::kAct);
    acts_.lost(session_.attachment);
  });
  EXPECT_EQ(acts_.run(session_.attachment, Verb::kPin, hashes_of(hashes), 10'000).status().code(),
            Code::kUnavailable);
  loser.join();
}

TEST_F(ActsTest, PendingCallsAreBounded) {
  const auto one = some_hashes(1);
  for (std::size_t i = 0; i < Acts::kMaxWaiting; ++i)
    ASSERT_TRUE(acts_.run(session_.attachment, Verb::kPin, hashes_of(one), 0).ok());
  EXPECT_EQ(acts_.run(session_.attachment, Verb::kPin, hashes_of(one), 0).status().code(),
            Code::kResourceExhausted);
  answer();
  EXPECT_TRUE(acts_.run(session_.attachment, Verb::kPin, hashes_of(one), 0).ok());
  const auto many = some_hashes(Acts::kMaxWaiting * protocol::kMaxKeysPerAct + 1);
  EXPECT_EQ(acts_.run(session_.attachment, Verb::kPin, hashes_of(many), 0).status().code(),
            Code::kOutOfRange);
}

TEST(ActsWithOlderSidecar, CallsAreRefusedWithoutMessage) {
  FakeSession old(0);
  Acts acts;
  const auto hashes = some_hashes(1);
  EXPECT_EQ(acts.run(old.attachment, Verb::kPin, hashes_of(hashes), 1000).status().code(),
            Code::kUnsupported);
  EXPECT_TRUE(old.silent());
}

class ClientActsTest : public loop::testing_support::SidecarTest {
 protected:
  ClientActsTest() { config_.memory.size_bytes = 4 << 20; }
};

TEST_F(ClientActsTest, PinnedChunksStayAndEvictedOnesGo) {
  start();
  const PageLayout layout{"plain", 2, 4, 16384, 0, false, 0};
  EngineClient engine(config_.socket, layout);
  ASSERT_TRUE(engine.client->wait_attached(5000).ok());
  const auto act = [&](Verb verb, std::uint64_t first, std::uint32_t count) {
    const Transfer chunks = engine.transfer(first, count);
    const Result<protocol::ActCounts> counts =
        engine.client->lower_tiers().act(verb, hashes_of(chunks.hashes), 5000);
    EXPECT_TRUE(counts.ok()) << counts.status().to_string();
    return counts.ok() ? *counts : protocol::ActCounts{};
  };
  ASSERT_EQ(engine.store(0, 4).stored, 4U);
  ASSERT_TRUE(engine.await_present(0, 4));
  EXPECT_EQ(act(Verb::kPrefetch, 0, 6).found, 4U);
  EXPECT_EQ(act(Verb::kPrefetch, 0, 6).absent, 2U);
  EXPECT_EQ(act(Verb::kPin, 0, 2).found, 2U);
  // Three times the arena goes through.
  for (std::uint64_t n = 100; n < 196; n += 4) ASSERT_GT(engine.store(n, 4).stored, 0U) << n;
  EXPECT_TRUE(engine.present(0, 2));
  EXPECT_FALSE(engine.present(2, 1)) << "the other two were evicted for room";
  engine.engine.wipe();
  EXPECT_EQ(engine.load(0, 2).status, Code::kOk);
  EXPECT_TRUE(engine.holds(0, 2));
  EXPECT_EQ(act(Verb::kEvict, 0, 1).found, 1U);
  EXPECT_FALSE(engine.present(0, 1));
  EXPECT_EQ(act(Verb::kUnpin, 0, 2).found, 1U);
  for (std::uint64_t n = 200; n < 296; n += 4) ASSERT_GT(engine.store(n, 4).stored, 0U) << n;
  EXPECT_FALSE(engine.present(1, 1)) << "unpinned, it goes like any other";
}

}  // namespace
}  // namespace larder::client

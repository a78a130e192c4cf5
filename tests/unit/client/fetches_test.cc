// Fetches: what is asked, what comes of it, and that nobody waits longer than it said.
#include "shim/client/fetches.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/unit/client/engine.h"
#include "tests/unit/client/fake_session.h"

namespace larder::client {
namespace {

using protocol::FetchEnd;
using protocol::MessageType;
using testing_support::FakeSession;
using testing_support::hash_of;
using testing_support::hashes_of;

constexpr std::uint64_t kTier = protocol::kCapabilityAct | protocol::kCapabilityBelow;

std::vector<protocol::BlockHash> some_hashes(std::uint64_t count) {
  std::vector<protocol::BlockHash> hashes;
  for (std::uint64_t n = 0; n < count; ++n) hashes.push_back(hash_of(n));
  return hashes;
}

class FetchesTest : public testing::Test {
 protected:
  // The ticket of a fetch that larderd has been asked for.
  std::uint64_t start(std::uint64_t count, std::uint32_t deadline_ms) {
    const auto hashes = some_hashes(count);
    const Result<std::uint64_t> ticket = fetches_.start(session_.attachment, hashes_of(hashes), deadline_ms);
    EXPECT_TRUE(ticket.ok()) << ticket.status().to_string();
    asked_ = session_.receive<protocol::Fetch, protocol::BlockHash>(MessageType::kFetch, &request_);
    return ticket.ok() ? *ticket : 0;
  }
  void answer(std::uint32_t families, FetchEnd reason) {
    fetches_.fetched(session_.attachment, request_, {families, static_cast<std::uint32_t>(reason), 4096, 7, 0});
  }
  FetchState poll(std::uint64_t ticket, std::uint32_t wait_ms = 0) {
    const Result<FetchState> state = fetches_.poll(ticket, wait_ms);
    EXPECT_TRUE(state.ok()) << state.status().to_string();
    return state.ok() ? *state : FetchState();
  }

  FakeSession session_{kTier};
  Fetches fetches_;
  std::vector<protocol::BlockHash> asked_;
  std::uint32_t request_ = 0;
};

TEST_F(FetchesTest, WhatIsAskedComesAndIsGivenFree) {
  const std::uint64_t ticket = start(5, 60'000);
  EXPECT_EQ(asked_, some_hashes(5));
  EXPECT_TRUE(poll(ticket).running);
  answer(3, FetchEnd::kAbsent);
  const FetchState done = poll(ticket, 5000);
  EXPECT_FALSE(done.running);
  EXPECT_EQ(done.chunks, 3U);
  EXPECT_EQ(done.reason, FetchEnd::kAbsent);
  EXPECT_EQ(done.bytes, 4096U);
  EXPECT_EQ(done.elapsed_us, 7U);
  EXPECT_TRUE(session_.silent()) << "larderd keeps them until it is told";
  fetches_.end(ticket);
  EXPECT_EQ(session_.receive_one<protocol::EndFetch>(MessageType::kFetchEnd).request, request_);
  EXPECT_EQ(fetches_.poll(ticket, 0).status().code(), Code::kNotFound);
  fetches_.end(ticket);
  EXPECT_TRUE(session_.silent());
}

TEST_F(FetchesTest, WithoutAnAnswerItEndsByItsDeadline) {
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t ticket = start(5, 20);
  const FetchState done = poll(ticket, 60'000);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
  EXPECT_FALSE(done.running);
  EXPECT_EQ(done.chunks, 0U);
  EXPECT_EQ(done.reason, FetchEnd::kLate);
  EXPECT_GE(done.elapsed_us, 20'000U);
  answer(5, FetchEnd::kAll);
  EXPECT_EQ(poll(ticket).chunks, 0U) << "nobody waits for it any more";
  fetches_.end(ticket);
  EXPECT_EQ(session_.receive_one<protocol::EndFetch>(MessageType::kFetchEnd).request, request_) << "larderd may keep it";
}

TEST_F(FetchesTest, WhoeverWaitsIsWokenByTheAnswer) {
  const std::uint64_t ticket = start(2, 60'000);
  std::thread larderd([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    answer(2, FetchEnd::kAll);
  });
  EXPECT_EQ(poll(ticket, 30'000).chunks, 2U);
  larderd.join();
}

TEST_F(FetchesTest, EndedWhileSomebodyWaitsItIsUnknown) {
  const std::uint64_t ticket = start(2, 60'000);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    fetches_.end(ticket);
  });
  EXPECT_EQ(fetches_.poll(ticket, 30'000).status().code(), Code::kNotFound);
  other.join();
}

TEST_F(FetchesTest, ALostSessionEndsItWithNothingAndIsNotWrittenTo) {
  const std::uint64_t ticket = start(2, 60'000);
  fetches_.lost(session_.attachment);
  const FetchState done = poll(ticket, 30'000);
  EXPECT_FALSE(done.running);
  EXPECT_EQ(done.chunks, 0U);
  EXPECT_EQ(done.reason, FetchEnd::kFailed);
  fetches_.end(ticket);
  EXPECT_TRUE(session_.silent());
}

TEST_F(FetchesTest, AnotherSessionsAnswerIsNotTaken) {
  const std::uint64_t ticket = start(2, 60'000);
  FakeSession other(kTier);
  fetches_.fetched(other.attachment, request_, {2, 0, 0, 0, 0});
  EXPECT_TRUE(poll(ticket).running);
}

TEST_F(FetchesTest, MoreThanWasAskedIsNotBelieved) {
  const std::uint64_t ticket = start(2, 60'000);
  answer(UINT32_MAX, FetchEnd::kAll);
  EXPECT_EQ(poll(ticket).chunks, 2U);
}

TEST_F(FetchesTest, OneAsksForAsManyHashesAsFitAMessage) {
  start(protocol::kMaxKeysPerFetch + 10, 60'000);
  EXPECT_EQ(asked_.size(), protocol::kMaxKeysPerFetch);
}

TEST_F(FetchesTest, WhatIsNotEndedIsBounded) {
  const auto hashes = some_hashes(1);
  std::vector<std::uint64_t> tickets;
  for (std::uint32_t i = 0; i < protocol::kMaxFetches; ++i) {
    tickets.push_back(start(1, 1));
    answer(1, FetchEnd::kAll);
  }
  EXPECT_EQ(fetches_.start(session_.attachment, hashes_of(hashes), 1).status().code(), Code::kResourceExhausted);
  fetches_.end(tickets[7]);
  EXPECT_TRUE(fetches_.start(session_.attachment, hashes_of(hashes), 1).ok());
}

TEST_F(FetchesTest, WithoutHashesOrADeadlineNothingIsAsked) {
  const auto hashes = some_hashes(1);
  EXPECT_EQ(fetches_.start(session_.attachment, hashes_of(hashes), 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(fetches_.start(session_.attachment, Hashes{}, 1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(fetches_.start(nullptr, hashes_of(hashes), 1).status().code(), Code::kUnavailable);
  session_.attachment->set_namespace_handle(0, Attachment::kNoHandle);
  EXPECT_EQ(fetches_.start(session_.attachment, hashes_of(hashes), 1).status().code(), Code::kUnavailable);
  EXPECT_TRUE(session_.silent());
}

TEST(FetchesOfASidecarWithoutATier, AreNotAskedFor) {
  FakeSession old;
  Fetches fetches;
  const auto hashes = some_hashes(1);
  EXPECT_EQ(fetches.start(old.attachment, hashes_of(hashes), 1000).status().code(), Code::kUnsupported);
  EXPECT_TRUE(old.silent());
}

class ReachableTest : public testing::Test {
 protected:
  ReachableTest() {
    spec_.shard_count = 2;
    spec_.groups = {{4096, 1, 1}, {4096, 1, 1}};
    spec_.id = protocol::namespace_id("some\n");
  }
  std::size_t reachable(std::uint64_t count) {
    const auto hashes = some_hashes(count);
    return count_reachable(*session_.attachment, spec_, hashes_of(hashes), spec_.id);
  }
  void show(std::uint64_t number, int parts) {
    for (int part = 0; part < parts; ++part)
      session_.show_below(spec_.id, hash_of(number), static_cast<std::uint16_t>(part / 2), static_cast<std::uint16_t>(part % 2));
  }

  FakeSession session_{kTier};
  NamespaceSpec spec_;
};

TEST_F(ReachableTest, AChunkIsBelowWhenAllShardsAndGroupsOfItAre) {
  EXPECT_EQ(reachable(8), 0U);
  for (std::uint64_t n = 0; n < 20; ++n) show(n, 4);
  EXPECT_EQ(reachable(8), 8U);
  EXPECT_EQ(reachable(30), 20U);
  show(20, 3);
  show(21, 4);
  EXPECT_EQ(reachable(30), 20U) << "a hole ends it";
}

TEST_F(ReachableTest, AnotherNamespacesChunksAreNot) {
  show(0, 4);
  spec_.id = protocol::namespace_id("other\n");
  EXPECT_EQ(reachable(1), 0U);
}

TEST(BelowRegion, ThatIsNotAsAnnouncedIsRefused) {
  std::vector<std::byte> bytes(protocol::below_bytes(protocol::kLeastBelowBuckets));
  EXPECT_FALSE(protocol::BelowReader::open(bytes.data(), bytes.size()).ok());
  EXPECT_FALSE(protocol::BelowReader().valid());
}

}  // namespace
}  // namespace larder::client

// Requests, of each kind: no caller waits longer than its given time, in any state of larderd.
#include "shim/client/requests.h"

#include <gtest/gtest.h>

#include <thread>

#include "shim/client/fetches.h"
#include "shim/client/tier_probes.h"
#include "tests/unit/client/engine.h"
#include "tests/unit/client/fake_session.h"

namespace larder::client {
namespace {

using testing_support::FakeSession;
using testing_support::hash_of;
using testing_support::hashes_of;

constexpr std::uint64_t kAll =
    protocol::kCapabilityAct | protocol::kCapabilityResidency | protocol::kCapabilityShared;

std::uint32_t& families_of(protocol::Fetched& answer) {
  return answer.families;
}
std::uint32_t& families_of(ProbeAnswer& answer) {
  return answer.probed.families;
}

template <typename Kind>
class RequestsTest : public testing::Test {
 protected:
  using End = decltype(Kind::State::reason);

  Result<std::uint64_t> try_start(std::uint64_t count, std::uint32_t deadline_ms) {
    const auto hashes = some_hashes(count);
    return requests_.start(session_.attachment, hashes_of(hashes), deadline_ms);
  }
  // The ticket of one that larderd has been asked for.
  std::uint64_t start(std::uint64_t count, std::uint32_t deadline_ms) {
    const Result<std::uint64_t> ticket = try_start(count, deadline_ms);
    EXPECT_TRUE(ticket.ok()) << ticket.status().to_string();
    asked_ = session_.receive<typename Kind::Ask, protocol::BlockHash>(Kind::kAsk, &request_);
    return ticket.ok() ? *ticket : 0;
  }
  void answer(std::uint32_t families) { answer(session_, families); }
  void answer(FakeSession& session, std::uint32_t families) {
    typename Kind::Answer answer{};
    families_of(answer) = families;
    requests_.answered(session.attachment, request_, answer);
  }
  typename Kind::State poll(std::uint64_t ticket, std::uint32_t wait_ms = 0) {
    const Result<typename Kind::State> state = requests_.poll(ticket, wait_ms);
    EXPECT_TRUE(state.ok()) << state.status().to_string();
    return state.ok() ? *state : typename Kind::State();
  }

  FakeSession session_{kAll};
  Requests<Kind> requests_;
  std::vector<protocol::BlockHash> asked_;
  std::uint32_t request_ = 0;
};

using Kinds = testing::Types<FetchKind, ProbeKind>;
TYPED_TEST_SUITE(RequestsTest, Kinds);

// covers F-046
TYPED_TEST(RequestsTest, UnansweredRequestEndsAtItsDeadline) {
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t ticket = this->start(5, 20);
  const auto done = this->poll(ticket, 60'000);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(20));
  EXPECT_FALSE(done.running);
  EXPECT_EQ(done.chunks, 0U);
  EXPECT_EQ(done.reason, TestFixture::End::kLate);
  EXPECT_GE(done.elapsed_us, 20'000U);
  this->answer(5);
  EXPECT_EQ(this->poll(ticket).chunks, 0U) << "no caller waits for the answer any more";
}

TYPED_TEST(RequestsTest, AnswerWakesTheWaiter) {
  const std::uint64_t ticket = this->start(2, 60'000);
  EXPECT_TRUE(this->poll(ticket).running);
  std::thread larderd([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    this->answer(2);
  });
  EXPECT_EQ(this->poll(ticket, 30'000).chunks, 2U);
  larderd.join();
}

TYPED_TEST(RequestsTest, RequestEndedDuringAWaitIsUnknown) {
  const std::uint64_t ticket = this->start(2, 60'000);
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    this->requests_.end(ticket);
  });
  EXPECT_EQ(this->requests_.poll(ticket, 30'000).status().code(), Code::kNotFound);
  other.join();
  this->answer(2);  // without a waiting caller
}

TYPED_TEST(RequestsTest, LostSessionEndsTheRequestWithoutChunks) {
  const std::uint64_t ticket = this->start(2, 60'000);
  this->requests_.lost(this->session_.attachment);
  const auto done = this->poll(ticket, 30'000);
  EXPECT_FALSE(done.running);
  EXPECT_EQ(done.chunks, 0U);
  EXPECT_EQ(done.reason, TestFixture::End::kFailed);
}

TYPED_TEST(RequestsTest, AnswerFromAnotherSessionIsIgnored) {
  const std::uint64_t ticket = this->start(2, 60'000);
  FakeSession other(kAll);
  this->answer(other, 2);
  EXPECT_TRUE(this->poll(ticket).running);
}

TYPED_TEST(RequestsTest, RequestHoldsAsManyHashesAsFitAMessage) {
  this->start(TypeParam::kMostHashes + 10, 60'000);
  EXPECT_EQ(this->asked_.size(), TypeParam::kMostHashes);
}

TYPED_TEST(RequestsTest, OpenRequestsAreBounded) {
  std::vector<std::uint64_t> tickets;
  for (std::uint32_t i = 0; i < TypeParam::kMost; ++i) {
    tickets.push_back(this->start(1, 1));
    this->answer(1);
  }
  EXPECT_EQ(this->try_start(1, 1).status().code(), Code::kResourceExhausted);
  this->requests_.end(tickets[7]);
  EXPECT_TRUE(this->try_start(1, 1).ok());
}

TYPED_TEST(RequestsTest, RequestWithoutHashesOrDeadlineIsRefused) {
  const auto hashes = some_hashes(1);
  EXPECT_EQ(this->try_start(1, 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(this->try_start(0, 1).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(this->requests_.start(nullptr, hashes_of(hashes), 1).status().code(),
            Code::kUnavailable);
  this->session_.attachment->set_namespace_handle(0, Attachment::kNoHandle);
  EXPECT_EQ(this->try_start(1, 1).status().code(), Code::kUnavailable);
  EXPECT_TRUE(this->session_.silent());
}

}  // namespace
}  // namespace larder::client

// Two candidates, a clock each that a test moves, and an API server in memory.
#include "operator/k8s/lease.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "tests/unit/operator/fake_api.h"

namespace larder::k8s {
namespace {

using operator_test::FakeApi;

// The clocks of one machine. A stopped process sees both jump; a sleeping machine only the second
// one.
struct Machine {
  base::ManualClock monotonic, boottime;
  void advance_ms(std::uint64_t ms) {
    monotonic.advance_ms(ms);
    boottime.advance_ms(ms);
  }
};

struct Candidate {
  Candidate(ApiClient& api, const std::string& identity)
      : lease(api, {.ns = "larder", .name = "larder-operator", .identity = identity},
              machine.monotonic, machine.boottime) {}
  Machine machine;
  LeaderLease lease;
};

class LeaseTest : public testing::Test {
 protected:
  void advance_ms(std::uint64_t ms) {
    a_.machine.advance_ms(ms);
    b_.machine.advance_ms(ms);
  }
  std::string holder() const {
    return api::text_at(*api_.find(resources::kLeases, "larder", "larder-operator"),
                        "spec.holderIdentity");
  }

  FakeApi api_;
  Candidate a_{api_, "a"}, b_{api_, "b"};
};

TEST_F(LeaseTest, FirstReplicaLeadsAndTheOtherWaits) {
  EXPECT_FALSE(a_.lease.held());
  EXPECT_TRUE(a_.lease.step().status.ok());
  EXPECT_TRUE(a_.lease.held());
  EXPECT_EQ(a_.lease.left_ms(), 10'000U);
  EXPECT_TRUE(b_.lease.step().status.ok());
  EXPECT_FALSE(b_.lease.held());
  EXPECT_EQ(b_.lease.holder(), "a");
  for (int i = 0; i < 30; ++i) {
    advance_ms(2'000);
    a_.lease.step();
    b_.lease.step();
    EXPECT_TRUE(a_.lease.held());
    EXPECT_FALSE(b_.lease.held());
  }
}

TEST_F(LeaseTest, OtherReplicaTakesOverWithin20sOfADeath) {
  a_.lease.step();
  b_.lease.step();
  std::uint64_t waited_ms = 0;
  while (!b_.lease.held() && waited_ms < 60'000) {
    const std::uint64_t again_ms = b_.lease.step().again_ms;
    advance_ms(again_ms);
    waited_ms += again_ms;
  }
  EXPECT_LE(waited_ms, 15'000U);
  EXPECT_EQ(holder(), "b");
  EXPECT_EQ(api::number_at(*api_.find(resources::kLeases, "larder", "larder-operator"),
                           "spec.leaseTransitions"),
            1);
}

TEST_F(LeaseTest, StoppedLeaderMayNotWrite) {
  a_.lease.step();
  advance_ms(60'000);
  EXPECT_FALSE(a_.lease.held()) << "before any question";
  EXPECT_EQ(a_.lease.left_ms(), 0U);
}

TEST_F(LeaseTest, LeaderAfterSystemSleepMayNotWrite) {
  a_.lease.step();
  a_.machine.boottime.advance_ms(60'000);  // the machine slept: its monotonic clock did not move
  EXPECT_FALSE(a_.lease.held());
}

TEST_F(LeaseTest, StoppedLeaderLosesTheLease) {
  a_.lease.step();
  b_.lease.step();
  advance_ms(60'000);
  b_.lease.step();
  EXPECT_TRUE(b_.lease.held());
  a_.lease.step();
  EXPECT_FALSE(a_.lease.held());
  EXPECT_EQ(a_.lease.holder(), "b");
  EXPECT_EQ(holder(), "b");
}

TEST_F(LeaseTest, ReleasedLeaseIsTakenAtOnce) {
  a_.lease.step();
  b_.lease.step();
  EXPECT_TRUE(a_.lease.release().ok());
  EXPECT_FALSE(a_.lease.held());
  b_.lease.step();
  EXPECT_TRUE(b_.lease.held());
  EXPECT_TRUE(a_.lease.release().ok()) << "no lease to give up";
  EXPECT_EQ(holder(), "b");
}

TEST_F(LeaseTest, LeaseExpiresWithoutTheServer) {
  a_.lease.step();
  api_.set_failures(
      [](const FakeApi::Call&) { return FakeApi::Failure{Status(Code::kUnavailable, "down")}; });
  for (int i = 0; i < 4; ++i) {
    advance_ms(2'000);
    EXPECT_FALSE(a_.lease.step().status.ok());
    EXPECT_TRUE(a_.lease.held());
  }
  advance_ms(2'000);
  EXPECT_FALSE(a_.lease.held());
}

TEST_F(LeaseTest, LostAnswerKeepsTheLease) {
  a_.lease.step();
  advance_ms(2'000);
  api_.set_failures([](const FakeApi::Call& call) -> std::optional<FakeApi::Failure> {
    if (call.verb != "replace") return std::nullopt;
    return FakeApi::Failure{Status(Code::kUnavailable, "cut"), true};  // done, without an answer
  });
  EXPECT_FALSE(a_.lease.step().status.ok());
  api_.set_failures(nullptr);
  a_.lease.step();  // its version is old: the lease is read again
  a_.lease.step();
  EXPECT_EQ(a_.lease.left_ms(), 10'000U);
}

TEST_F(LeaseTest, ForeignChangeDoesNotExtendTheLease) {
  a_.lease.step();
  b_.lease.step();
  advance_ms(8'000);
  api_.as_user(
      resources::kLeases,
      {{"metadata",
        {{"namespace", "larder"}, {"name", "larder-operator"}, {"annotations", {{"x", "y"}}}}}});
  b_.lease.step();  // sees another version, counts from now
  advance_ms(1'000);
  const std::uint64_t left_ms = a_.lease.left_ms();
  a_.lease.step();  // its renewal comes second
  EXPECT_LE(a_.lease.left_ms(), left_ms) << "an unrenewed lease lasts no longer";
  a_.lease.step();
  EXPECT_EQ(a_.lease.left_ms(), 10'000U);
}

TEST_F(LeaseTest, DeletedLeaseIsRecreated) {
  a_.lease.step();
  api_.delete_as_user(resources::kLeases, "larder", "larder-operator");
  advance_ms(2'000);
  a_.lease.step();
  advance_ms(10'000);
  a_.lease.step();
  EXPECT_TRUE(a_.lease.held());
  EXPECT_EQ(holder(), "a");
}

// A program between us and the server may answer anything; the thread that holds the lease lives
// on.
// covers F-233
TEST_F(LeaseTest, MalformedLeaseIsAnErrorAndNotExtended) {
  EXPECT_TRUE(a_.lease.step().status.ok());
  EXPECT_EQ(a_.lease.left_ms(), 10'000U);
  api_.set_defaulting([](api::Object& object) { object["spec"] = "no lease"; });
  advance_ms(2'000);
  EXPECT_EQ(a_.lease.step().status.code(), Code::kInvalidArgument);
  EXPECT_EQ(a_.lease.left_ms(), 8'000U) << "an unconfirmed write extends no lease";
  a_.lease.step();
  EXPECT_TRUE(a_.lease.release().ok());
  EXPECT_FALSE(a_.lease.held());
  api_.set_defaulting(nullptr);
  EXPECT_TRUE(b_.lease.step().status.ok());
  EXPECT_TRUE(b_.lease.held());
}

TEST_F(LeaseTest, TransitionCountRestartsBeforeOverflow) {
  const auto transitions_after = [this](std::int64_t before) {
    api_.as_user(resources::kLeases,
                 {{"metadata", {{"namespace", "larder"}, {"name", "larder-operator"}}},
                  {"spec", {{"holderIdentity", ""}, {"leaseTransitions", before}}}});
    Candidate next{api_, "next"};
    EXPECT_TRUE(next.lease.step().status.ok());
    return api::number_at(*api_.find(resources::kLeases, "larder", "larder-operator"),
                          "spec.leaseTransitions", -1);
  };
  EXPECT_EQ(transitions_after(7), 8);
  EXPECT_EQ(transitions_after(std::numeric_limits<std::int32_t>::max()), 0);
  EXPECT_EQ(transitions_after(std::numeric_limits<std::int64_t>::max()), 0);
}

TEST_F(LeaseTest, IdentitiesDiffer) {
  EXPECT_NE(unique_identity("pod"), unique_identity("pod"));
  EXPECT_TRUE(unique_identity("pod").starts_with("pod_"));
}

// With any stop, loss or delay: never two that may write.
TEST(LeasePropertyTest, NeverTwoHolders) {
  std::uint64_t led[2] = {0, 0};
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    FakeApi api;
    Candidate candidates[2] = {{api, "a"}, {api, "b"}};
    bool stopped[2] = {false, false};
    std::uint64_t next_ms[2] = {0, 0}, now_ms = 0;
    api.set_failures([&](const FakeApi::Call& call) -> std::optional<FakeApi::Failure> {
      // The time an answer takes passes for everybody.
      const std::uint64_t takes_ms = random() % 300;
      for (Candidate& candidate : candidates) candidate.machine.advance_ms(takes_ms);
      now_ms += takes_ms;
      if (random() % 8 != 0) return std::nullopt;
      return FakeApi::Failure{Status(Code::kUnavailable, "cut"),
                              call.writes() && random() % 2 == 0};
    });
    for (int steps = 0; steps < 300; ++steps) {
      const std::uint64_t ms = 100 + random() % 1'000;
      for (Candidate& candidate : candidates) candidate.machine.advance_ms(ms);
      now_ms += ms;
      for (int i = 0; i < 2; ++i) {
        if (random() % 20 == 0) stopped[i] = !stopped[i];
        if (stopped[i] || now_ms < next_ms[i]) continue;
        next_ms[i] = now_ms + candidates[i].lease.step().again_ms;
        if (random() % 100 == 0) std::ignore = candidates[i].lease.release();
        ASSERT_FALSE(candidates[0].lease.held() && candidates[1].lease.held())
            << "seed " << seed << " step " << steps;
      }
      for (int i = 0; i < 2; ++i) led[i] += candidates[i].lease.held() ? 1 : 0;
    }
  }
  EXPECT_GT(led[0], 10'000U);
  EXPECT_GT(led[1], 10'000U);
}

}  // namespace
}  // namespace larder::k8s

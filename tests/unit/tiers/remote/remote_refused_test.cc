// A server that refuses some chunks: these are not sent again and again, others are stored, and
// reads go on.
#include <gmock/gmock.h>

#include <atomic>

#include "sidecar/tiers/remote/format.h"
#include "sidecar/tiers/remote/topology/links.h"
#include "tests/unit/tiers/remote/tier_fixture.h"

namespace larder::remote::testing_support {
namespace {

using testing::HasSubstr;
using tiers::testing_support::key_of;

constexpr std::uint64_t kLong = 256 << 10;
constexpr std::uint64_t kNsPerMs = 1'000'000;
const auto kWriters = Links::writers(RemoteOptions().connections);

class RemoteRefusedTest : public TierFixture {
 protected:
  RemoteRefusedTest() {
    options_.refused_ms = RemoteOptions().refused_ms;
    options_.trial_bytes_per_s = RemoteOptions().trial_bytes_per_s;
  }
  // Values of more bytes are answered so.
  void refuse_longer_than(std::size_t bytes, const std::string& answer) {
    server_.set_hook([bytes, answer](const FakeServer::Words& words) -> std::optional<std::string> {
      return words[0] == "SET" && words[2].size() > bytes ? std::optional(answer) : std::nullopt;
    });
  }
  void in_a_hurry() {
    options_.refused_ms = 200;
    options_.trial_bytes_per_s = 1 << 30;
  }
  std::uint64_t sent() const { return tier_->counters().written_bytes; }
};

// Like a proxy with a limit: the tier once sent the same chunk ten times a second.
// covers F-171
TEST_F(RemoteRefusedTest, RefusedLongChunksPauseForMinutesAndShortOnesContinue) {
  open();
  ASSERT_TRUE(loop_->put(1, 1, 1, kBytes).ok());
  refuse_longer_than(64 << 10, "-ERR max request size exceeded\r\n");
  EXPECT_EQ(loop_->put(2, 1, 1, kLong).to_string(),
            "unavailable: the server answered with an error");
  EXPECT_TRUE(eventually(
      [&] { return !loop_->put(2, 1, 1, kLong).ok() && tier_->counters().puts_failed == 2; }, 5000))
      << "once more, soon: it might have been over";
  EXPECT_THAT(tier_->state().reason,
              HasSubstr("takes no chunks of 260 KiB and more: the server answered with an error"));
  EXPECT_TRUE(tier_->state().takes_puts && tier_->state().takes_gets);
  const std::uint64_t before = sent();
  for (std::uint64_t n = 2; n < 200; ++n)
    ASSERT_EQ(loop_->put(n, 1, 1, kLong).code(), Code::kUnavailable);
  EXPECT_LT(sent() - before, 16U << 10) << "nothing of them";
  EXPECT_EQ(tier_->counters().puts_failed, 2U);
  EXPECT_GE(tier_->counters().refused, 198U);
  EXPECT_TRUE(loop_->put(500, 1, 1, kBytes).ok());
  EXPECT_TRUE(loop_->get(500, 1, kBytes).ok() && loop_->get(1, 1, kBytes).ok());
  EXPECT_FALSE(tier_->state().reason.empty()) << "a stored short chunk does not help long ones";
}

// covers F-171
TEST_F(RemoteRefusedTest, RefusalNamesTheTimeOfTheNextAttempt) {
  open();
  refuse_longer_than(64 << 10, "-ERR no\r\n");
  EXPECT_FALSE(loop_->put(1, 1, 1, kLong).ok());
  tiers::testing_support::Slot slot(
      protocol::slot_bytes(kLong, tiers::testing_support::kPieceBytes));
  const tiers::ChunkFacts facts =
      tiers::testing_support::fill(slot.span(), 2, 1, kLong, tiers::testing_support::kPieceBytes);
  const tiers::Ticket ticket = loop_->next();
  ASSERT_TRUE(tier_->put(ticket, key_of(2), facts, slot.span(), loop_->in_ms(5000)).ok());
  const std::optional<tiers::Message> done = loop_->done(ticket);
  ASSERT_TRUE(done.has_value());
  EXPECT_GT(done->again_ns, clock_.now_ns());
  EXPECT_LE(done->again_ns, clock_.now_ns() + 6000 * kNsPerMs);
}

// covers F-171
TEST_F(RemoteRefusedTest, ChunksAreStoredWithinThePauseAfterRecovery) {
  in_a_hurry();
  open();
  refuse_longer_than(64 << 10, "-ERR no\r\n");
  EXPECT_FALSE(loop_->put(1, 1, 1, kLong).ok());
  server_.set_hook({});
  EXPECT_TRUE(eventually([&] { return loop_->put(1, 1, 1, kLong).ok(); }, 5000));
  EXPECT_TRUE(eventually([&] { return tier_->state().reason.empty(); }));
  EXPECT_TRUE(loop_->get(1, 1, kLong).ok());
}

// covers F-171
TEST_F(RemoteRefusedTest, TrialSendsOnePartOfOneChunk) {
  in_a_hurry();
  open();
  constexpr std::uint64_t kParts = 5 << 20;  // three of these
  refuse_longer_than(1 << 20, "-ERR no\r\n");
  EXPECT_FALSE(loop_->put(1, 1, 1, kParts).ok());
  std::uint64_t trials = 0;
  for (std::uint64_t n = 0; n < 400 && trials < 3; ++n) {
    const std::uint64_t before = sent();
    EXPECT_FALSE(loop_->put(2 + n % 5, 1, 1, kParts).ok());
    if (sent() - before > 1 << 20) ++trials;
    ASSERT_LT(sent() - before, 5U << 19) << "two and a half MiB";
    loop_->collect(5);
  }
  EXPECT_GE(trials, 2U);
  server_.set_hook({});
  EXPECT_TRUE(eventually([&] { return loop_->put(1, 1, 1, kParts).ok(); }, 10'000))
      << "and the other parts follow";
  EXPECT_TRUE(loop_->get(1, 1, kParts).ok());
}

// covers F-170, F-171
TEST_F(RemoteRefusedTest, FullServerIsAskedForSpaceAndGetsNoPut) {
  open();
  std::atomic<std::uint64_t> used = 100 << 20;
  const HookScope hooked(
      server_, [&used](const FakeServer::Words& words) -> std::optional<std::string> {
        const bool full = used > 90 << 20;
        if (words[0] == "SET" && words[2].size() > 4096 && full)
          return "-OOM command not allowed\r\n";
        if (words[0] != "INFO" || words.size() < 2 || words[1] != "memory") return std::nullopt;
        const std::string text = "# Memory\r\nused_memory:" + std::to_string(used) +
                                 "\r\nmaxmemory:104857600\r\nmaxmemory_policy:noeviction\r\n";
        return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
      });
  EXPECT_EQ(loop_->put(1, 1, 1, 4 << 20).code(), Code::kResourceExhausted);
  EXPECT_THAT(tier_->state().reason, HasSubstr("the server is full"));
  const std::uint64_t before = sent();
  EXPECT_FALSE(eventually([&] { return loop_->put(1, 1, 1, 4 << 20).ok(); }, 3000));
  EXPECT_LT(sent() - before, 4096U);
  used = 10 << 20;
  EXPECT_TRUE(eventually([&] { return loop_->put(1, 1, 1, 4 << 20).ok(); }, 10'000))
      << "long before its pause is over";
  EXPECT_TRUE(eventually([&] { return tier_->state().reason.empty(); }));
}

// The server was once greeted anew three times a second, and meanwhile reads were impossible.
// covers F-171, F-172
TEST_F(RemoteRefusedTest, ReadOnlyUserKeepsReadingOnTheSameConnections) {
  // connections that write, by the short value of their greeting
  std::atomic<unsigned> greeted = 0;
  server_.set_hook([&greeted](const FakeServer::Words& words) -> std::optional<std::string> {
    if (words[0] == "SET" && words[2] == "1") ++greeted;
    return std::nullopt;
  });
  open();
  ASSERT_TRUE(loop_->put(1, 1, 1, kBytes).ok());
  ASSERT_TRUE(eventually(
      [&] { return server_.connections == options_.connections && greeted == kWriters; }));
  server_.set_hook([](const FakeServer::Words& words) -> std::optional<std::string> {
    return words[0] == "SET"
               ? std::optional<std::string>("-NOPERM this user has no permissions\r\n")
               : std::nullopt;
  });
  EXPECT_EQ(loop_->put(2, 1, 1, kBytes).code(), Code::kPermissionDenied);
  for (const std::uint64_t end = clock_.now_ns() + 1500 * kNsPerMs; clock_.now_ns() < end;) {
    ASSERT_TRUE(loop_->get(1, 1, kBytes).ok());
    loop_->collect(5);
  }
  EXPECT_EQ(server_.connections, options_.connections);
  EXPECT_THAT(tier_->state().reason, HasSubstr("NOPERM"));
  server_.set_hook({});
  EXPECT_TRUE(eventually([&] { return loop_->put(2, 1, 1, kBytes).ok(); }, 10'000));
}

// covers F-171
TEST_F(RemoteRefusedTest, IdleConnectionIsPinged) {
  options_.ping_ms = 100;
  std::atomic<unsigned> pings = 0;
  open();
  ASSERT_TRUE(loop_->put(1, 1, 1, kBytes).ok());
  const HookScope hooked(server_,
                         [&pings](const FakeServer::Words& words) -> std::optional<std::string> {
                           pings += words[0] == "PING" ? 1U : 0U;
                           return std::nullopt;
                         });
  loop_->collect(1000);
  EXPECT_GE(pings, 3 * 4U) << "each of the three";
}

// Once the log said it twice, "no connection" and "connected again", and chunks were missed
// meanwhile.
// covers F-171, F-173
TEST_F(RemoteRefusedTest, ClosedIdleConnectionCausesNoMiss) {
  options_.ping_ms = 60'000;
  open();
  ASSERT_TRUE(loop_->put(1, 1, 1, kBytes).ok());
  ASSERT_TRUE(eventually([&] { return server_.connections == options_.connections; }));
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    server_.hang_up();
    EXPECT_EQ(loop_->get(1, 1, kBytes).to_string(), "ok");
  }
  EXPECT_EQ(tier_->counters().times_degraded, 0U);
}

}  // namespace
}  // namespace larder::remote::testing_support

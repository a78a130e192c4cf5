// The worst answers of a server: each costs a miss, never a wrong byte, and the tier is well again
// by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "sidecar/tiers/remote/format.h"
#include "tests/patient.h"
#include "tests/unit/tiers/remote/tier_fixture.h"

namespace larder::remote::testing_support {
namespace {

using testing::HasSubstr;
using tiers::testing_support::key_of;
using tiers::testing_support::Slot;

class RemoteHostileTest : public TierFixture {
 protected:
  void open(std::uint32_t connections = 2) {
    options_.connections = connections;
    TierFixture::open();
  }
  // As usual from now on: within a second.
  void expect_well() {
    server_.set_hook({});
    server_.mute = false;
    server_.trickle_ms = 0;
    EXPECT_TRUE(eventually([&] { return !tier_->state().degraded(); }, 1000))
        << tier_->state().reason;
    EXPECT_TRUE(eventually([&] { return loop_->put(99, 1, 1, kBytes).ok(); }, 1000));
    EXPECT_EQ(loop_->get(99, 1, kBytes).to_string(), "ok");
  }
};

// covers F-168
TEST_F(RemoteHostileTest, RepliesThatBreakTheProtocolCloseTheConnection) {
  open(1);
  for (const std::string& bytes :
       {std::string("+OK\r\n"), std::string(":1\r\n"), std::string("*1\r\n$1\r\na\r\n"),
        std::string("*1\r\n*1\r\n*1\r\n:1\r\n"), std::string("*2000000000\r\n"),
        std::string("$2000000000\r\n"), std::string("$-5\r\n"), std::string("garbage\r\n"),
        std::string("$3\r\nabcde\r\n"), std::string("%1\r\n+a\r\n+b\r\n")}) {
    ASSERT_TRUE(loop_->put(1, 1, 1, kBytes).ok());
    const unsigned before = server_.connections;
    answer("GET", bytes);
    const Status status = loop_->get(1, 1, kBytes);
    EXPECT_FALSE(status.ok()) << bytes.substr(0, 20);
    EXPECT_NE(status.code(), Code::kInternal) << bytes.substr(0, 20);
    expect_well();
    EXPECT_GT(server_.connections, before) << "never gone on with: " << bytes.substr(0, 20);
    EXPECT_TRUE(loop_->get(1, 1, kBytes).ok());
  }
}

// covers F-166
TEST_F(RemoteHostileTest, TruncatedReplyIsAMissAtItsDeadlineAndWritesNothingLater) {
  open(1);
  ASSERT_TRUE(loop_->put(1, 1, 1, kBytes).ok());
  answer("GET", "$" + std::to_string(protocol::slot_bytes(kBytes, kBytes)) + "\r\nhalf of it");
  Slot slot(protocol::slot_bytes(kBytes, kBytes));
  const tiers::Ticket ticket = loop_->next();
  ASSERT_TRUE(tier_->get(ticket, key_of(1), slot.span(), loop_->in_ms(100)).ok());
  const std::optional<tiers::Message> message = loop_->done(ticket);
  ASSERT_TRUE(message.has_value());
  EXPECT_EQ(message->status.code(), Code::kDeadlineExceeded);
  EXPECT_FALSE(message->slot_busy) << "the connection is closed first";
  std::memset(slot.span().data(), 0x11, slot.span().size());
  expect_well();
  for (const std::byte byte : slot.span()) ASSERT_EQ(byte, std::byte{0x11});
  EXPECT_EQ(loop_->of(ticket).size(), 1U);
}

// covers F-160
TEST_F(RemoteHostileTest, SilentServerCostsOneDeadline) {
  open();
  ASSERT_TRUE(loop_->put(1, 1, 1, kBytes).ok());
  server_.mute = true;
  const std::uint64_t start = clock_.now_ns();
  EXPECT_FALSE(loop_->get(1, 1, kBytes).ok());
  EXPECT_LT(clock_.now_ns() - start, 1'000'000'000U);
  EXPECT_TRUE(eventually([&] { return tier_->state().degraded(); }));
  EXPECT_THAT(tier_->state().reason, HasSubstr("does not answer"));
  EXPECT_EQ(tier_->get(1000, key_of(1), Slot(8192).span(), loop_->in_ms(1000)).code(),
            Code::kUnavailable)
      << "at once";
  expect_well();
}

// covers F-161
TEST_F(RemoteHostileTest, OneByteASecondMissesTheDeadline) {
  open();
  ASSERT_TRUE(loop_->put(1, 1, 1, kBytes).ok());
  server_.trickle_ms = 1000;
  const std::uint64_t start = clock_.now_ns();
  EXPECT_FALSE(loop_->get(1, 1, kBytes).ok());
  EXPECT_LT(clock_.now_ns() - start, 2'500'000'000U);
  expect_well();
}

// A slow network, or a far one that loses packets: a part takes longer than a server may be silent.
// covers F-162
TEST_F(RemoteHostileTest, LongAnswerInProgressMeetsTheDeadline) {
  open();
  constexpr std::uint64_t kLong = 1 << 20;
  ASSERT_TRUE(loop_->put(1, 1, 1, kLong).ok());
  ASSERT_TRUE(eventually([&] { return server_.connections == options_.connections; }));
  server_.trickle_bytes = 32 << 10;
  server_.trickle_ms = 25;
  const std::uint64_t start = clock_.now_ns();
  EXPECT_EQ(loop_->get(1, 1, kLong).to_string(), "ok");
  EXPECT_GT(clock_.now_ns() - start, 2 * options_.answer_ms * 1'000'000)
      << "or the test has no meaning";
  EXPECT_EQ(server_.connections, options_.connections);
  EXPECT_EQ(tier_->counters().times_degraded, 0U);
}

// covers F-162
TEST_F(RemoteHostileTest, LongCommandInProgressMeetsTheDeadline) {
  open();
  constexpr std::uint64_t kLong = 2 << 20;  // more than the kernel's buffers hold
  ASSERT_TRUE(loop_->put(1, 1, 1, kBytes).ok());
  ASSERT_TRUE(eventually([&] { return server_.connections == options_.connections; }));
  server_.trickle_bytes = 48 << 10;
  server_.trickle_ms = 20;
  server_.sips = true;
  const std::uint64_t start = clock_.now_ns();
  EXPECT_EQ(loop_->put(2, 1, 1, kLong).to_string(), "ok");
  EXPECT_GT(clock_.now_ns() - start, 2 * options_.answer_ms * 1'000'000)
      << "or the test has no meaning";
  EXPECT_EQ(server_.connections, options_.connections);
  EXPECT_EQ(tier_->counters().times_degraded, 0U);
}

// covers F-161
TEST_F(RemoteHostileTest, TricklingAnswerMissesTheDeadline) {
  open();
  constexpr std::uint64_t kLong = 1 << 20;
  ASSERT_TRUE(loop_->put(1, 1, 1, kLong).ok());
  server_.trickle_bytes = 256;
  server_.trickle_ms = 10;
  const std::uint64_t start = clock_.now_ns();
  EXPECT_FALSE(loop_->get(1, 1, kLong).ok());
  EXPECT_LT(clock_.now_ns() - start, 2'500'000'000U);
  expect_well();
}

// covers F-175, F-177, F-181
TEST_F(RemoteHostileTest, ErrorsFailTheirCommandAndSomeDegradeTheTier) {
  open();
  ASSERT_TRUE(loop_->put(1, 1, 1, kBytes).ok());
  struct Case {
    const char* error;
    bool takes_puts, takes_gets;
    const char* reason;
  };
  for (const Case& one :
       {Case{"OOM command not allowed", false, true, "maxmemory"},
        Case{"READONLY You can't", false, true, "replica"},
        Case{"MISCONF Redis is", false, true, "persist"},
        Case{"LOADING Redis is loading", false, false, "loading"},
        Case{"BUSY Redis is busy", false, false, "script"},
        Case{"MASTERDOWN Link", false, false, "master"},
        Case{"CLUSTERDOWN Hash slot", false, false, "down"},
        Case{"NOAUTH Authentication required.", false, true, "password"},
        Case{"NOPERM this user", true, true, "NOPERM"}, Case{"MOVED 1 a:1", false, true, "Cluster"},
        Case{"ERR out of luck", true, true, "takes no chunks of 12 KiB and more"},
        Case{"TRYAGAIN later", true, true, ""}}) {
    const std::string bytes = std::string("-") + one.error + "\r\n";
    const HookScope hooked(
        server_, [bytes](const FakeServer::Words& words) -> std::optional<std::string> {
          return words[0] == "SET" || (words[0] == "GETRANGE" && (bytes.starts_with("-LOADING") ||
                                                                  bytes.starts_with("-BUSY")))
                     ? std::optional(bytes)
                     : std::nullopt;
        });
    EXPECT_FALSE(loop_->put(2, 1, 1, kBytes).ok()) << one.error;
    const tiers::TierState state = tier_->state();
    EXPECT_TRUE(eventually([&] { return tier_->state().takes_puts == one.takes_puts; }, 5000))
        << one.error;
    if (std::string(one.error).starts_with("MOVED") || std::string(one.error).starts_with("NO")) {
      // The tier greets anew, and meanwhile there may be no connection.
    } else {
      EXPECT_EQ(state.takes_gets, one.takes_gets) << one.error;
    }
    EXPECT_THAT(state.reason, HasSubstr(one.reason)) << one.error;
    expect_well();
    EXPECT_TRUE(eventually([&] { return tier_->state().reason.empty(); }, 5000))
        << "the next one is tried: " << one.error;
    EXPECT_TRUE(loop_->get(1, 1, kBytes).ok()) << one.error;
    EXPECT_EQ(loop_->get(2, 1, kBytes).code(), Code::kNotFound)
        << "a failed put is never found: " << one.error;
  }
}

// covers F-197
TEST_F(RemoteHostileTest, WrongTypeIsAMissOfThatChunkOnly) {
  open();
  for (std::uint64_t i = 1; i <= 2; ++i) ASSERT_TRUE(loop_->put(i, 1, 1, kBytes).ok());
  answer("GET", "-WRONGTYPE Operation against a key\r\n",
         server_.part_of(record_key("larder", key_of(1))));
  EXPECT_EQ(loop_->get(1, 1, kBytes).code(), Code::kNotFound);
  EXPECT_TRUE(loop_->get(2, 1, kBytes).ok());
  answer("GETRANGE", "-WRONGTYPE Operation against a key\r\n", record_key("larder", key_of(3)));
  EXPECT_EQ(loop_->get(3, 1, kBytes).code(), Code::kDataLoss);
  const std::vector<tiers::ChunkKey> keys{key_of(2), key_of(3)};
  EXPECT_EQ(loop_->probe(keys), (std::vector<bool>{true, false}));
  EXPECT_FALSE(tier_->state().degraded());
}

// covers F-197
TEST_F(RemoteHostileTest, ForeignRecordsAndPartsOfWrongLengthAreMisses) {
  open();
  ASSERT_TRUE(loop_->put(1, 1, 1, kBytes).ok());
  const tiers::ChunkFacts facts = tier_->probe(key_of(1)).value();
  // Another chunk's record under this key, and bytes that are no record.
  for (const std::string& text :
       {encode_record({key_of(2), facts, kPartBytes, 1}), std::string(112, 'x'),
        std::string(4, 'x'), std::string(113, 'x')}) {
    answer("GETRANGE", "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n",
           record_key("larder", key_of(5)));
    EXPECT_EQ(loop_->get(5, 1, kBytes).code(), Code::kDataLoss);
  }
  EXPECT_EQ(tier_->counters().records_corrupt, 4U);
  // A part shorter than its right length.
  answer("GET", "$10\r\n0123456789\r\n");
  EXPECT_EQ(loop_->get(1, 1, kBytes).code(), Code::kNotFound);
  expect_well();
  EXPECT_EQ(loop_->get(1, 1, kBytes).code(), Code::kNotFound)
      << "an incomplete chunk is found no more";
}

// covers F-202
TEST_F(RemoteHostileTest, SecretsAreNeverLogged) {
  const std::string file = server_.socket() + ".password";
  std::ofstream(file) << "HUNTERTWO\n";
  options_.password_file = file;
  options_.user = "larder";
  std::atomic<bool> asked_rightly = false;
  const HookScope hooked(
      server_, [&](const FakeServer::Words& words) -> std::optional<std::string> {
        if (words[0] != "HELLO") return std::nullopt;
        asked_rightly = words.size() >= 5 && words[3] == "larder" && words[4] == "HUNTERTWO";
        return "-HUNTERTWO is what you said HUNTERTWO\r\n";
      });
  testing::internal::CaptureStderr();
  open();
  EXPECT_TRUE(eventually([&] { return tier_->state().degraded(); }));
  EXPECT_TRUE(asked_rightly);
  EXPECT_THAT(tier_->state().reason, testing::Not(HasSubstr("HUNTER")));
  expect_well();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::Not(HasSubstr("HUNTER")));
}

// covers F-183
TEST_F(RemoteHostileTest, WrongModeIsReported) {
  const HookScope hooked(server_, [](const FakeServer::Words& words) -> std::optional<std::string> {
    if (words[0] == "HELLO") return "*2\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n";
    return std::nullopt;
  });
  open();
  EXPECT_TRUE(eventually([&] {
    return tier_->state().reason.find("Sentinel") != std::string::npos;
  })) << tier_->state().reason;
  expect_well();
}

// No answer goes out before all of the command has come: with a command in two steps, the second
// would never be taken.
TEST_F(RemoteHostileTest, ProbeOfAnyLengthIsOneRoundTrip) {
  options_ = test::patient(options_);
  open();
  ASSERT_TRUE(loop_->put(7, 1, 1, kBytes).ok());
  std::atomic<std::size_t> commands = 0;
  const HookScope hooked(server_,
                         [&](const FakeServer::Words& words) -> std::optional<std::string> {
                           if (words[0] == "GETRANGE" && !words[1].ends_with(":probe") &&
                               ++commands == tiers::kMaxProbeKeys)
                             server_.holds = false;
                           return std::nullopt;
                         });
  server_.holds = true;
  std::vector<tiers::ChunkKey> keys;
  for (std::uint64_t i = 0; i < tiers::kMaxProbeKeys; ++i) keys.push_back(key_of(i));
  const std::vector<bool> there = loop_->probe(keys);
  ASSERT_EQ(there.size(), keys.size());
  for (std::size_t i = 0; i < there.size(); ++i) EXPECT_EQ(there[i], i == 7) << i;
}

// covers F-200
TEST_F(RemoteHostileTest, PendingDropOfADownServerHidesItsChunks) {
  open();
  ASSERT_TRUE(loop_->put(1, 1, 1, kBytes).ok() && loop_->put(2, 1, 2, kBytes).ok());
  answer("SCAN", "-ERR not now\r\n");
  EXPECT_FALSE(loop_->drop(1).ok());
  EXPECT_FALSE(tier_->probe(key_of(1)).has_value());
  EXPECT_EQ(loop_->get(1, 1, kBytes).code(), Code::kNotFound);
  EXPECT_TRUE(loop_->get(2, 2, kBytes).ok());
  EXPECT_EQ(loop_->put(1, 1, 1, kBytes).code(), Code::kUnavailable)
      << "or it would go with the rest";
  server_.set_hook({});
  EXPECT_TRUE(eventually([&] { return loop_->put(1, 2, 1, kBytes).ok(); }));
  EXPECT_TRUE(loop_->get(1, 1, kBytes).ok());
  EXPECT_GT(server_.unlinked, 0U);
}

// covers F-200
TEST_F(RemoteHostileTest, DropOfADownServerReturnsAtOnce) {
  open();
  ASSERT_TRUE(loop_->put(1, 1, 1, kBytes).ok());
  server_.mute = true;  // sends no answer, not even to a greeting
  const std::uint64_t start = clock_.now_ns();
  EXPECT_FALSE(loop_->drop(1).ok());
  EXPECT_TRUE(eventually([&] { return tier_->state().degraded(); }));
  EXPECT_EQ(loop_->drop(1).code(), Code::kUnavailable) << "nor for one that is known to be away";
  EXPECT_EQ(loop_->clear().code(), Code::kUnavailable);
  EXPECT_LT(clock_.now_ns() - start, 2'000'000'000U);
  EXPECT_FALSE(tier_->probe(key_of(1)).has_value());
  server_.mute = false;
  EXPECT_TRUE(eventually([&] { return server_.keys().empty(); })) << "it is done all the same";
  expect_well();
}

TEST_F(RemoteHostileTest, WrongOptionsAreReported) {
  RemoteOptions good;
  good.unix_path = "/tmp/nobody";
  const auto wrong = [&](auto change) {
    RemoteOptions options = good;
    change(options);
    return open_remote_tier(clock_, options).status().text();
  };
  EXPECT_THAT(wrong([](RemoteOptions& o) { o.host = "a"; }), HasSubstr("backend.host"));
  EXPECT_THAT(wrong([](RemoteOptions& o) { o.prefix = "a:*"; }), HasSubstr("backend.prefix"));
  EXPECT_THAT(wrong([](RemoteOptions& o) { o.connections = 5; }), HasSubstr("backend.connections"));
  EXPECT_THAT(wrong([](RemoteOptions& o) { o.user = "u"; }), HasSubstr("backend.password_file"));
  EXPECT_THAT(wrong([](RemoteOptions& o) { o.tls.cert_file = "c"; }),
              HasSubstr("backend.cert_file"));
  EXPECT_THAT(wrong([](RemoteOptions& o) { o.unix_path = std::string(200, 'a'); }),
              HasSubstr("backend.unix_path"));
}

}  // namespace
}  // namespace larder::remote::testing_support

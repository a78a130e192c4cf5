// One command's failure never shifts another's reply: a rival's connector, after one -OOM, gave
// every later GET an earlier one's answer, and in the end another key's bytes as success.
#include <gtest/gtest.h>

#include <random>

#include "sidecar/net/connection.h"
#include "sidecar/tiers/remote/chunks/remote_tier.h"
#include "tests/conformance/tier_chunks.h"
#include "tests/long_form.h"
#include "tests/unit/net/scripted_stream.h"
#include "tests/unit/tiers/remote/fake_server.h"

namespace larder::remote::testing_support {
namespace {

using net::testing_support::ScriptedStream;
using net::testing_support::Wire;
using tiers::testing_support::key_of;
using tiers::testing_support::Loop;

#if defined(LARDER_SANITIZED)
constexpr int kShort = 20'000;
#else
constexpr int kShort = 100'000;
#endif
const int kErrors = test::by_form(kShort, 1'000'000);

// Every payload names its key; the server's answers come in pieces of any size, an error in place
// of every second.
// covers F-169
TEST(RemoteShiftTest, RandomErrorRepliesNeverShiftReplies) {
  const std::vector<std::string> errors{"-OOM command not allowed\r\n",
                                        "-LOADING\r\n",
                                        "-ERR x\r\n",
                                        "-BUSY y z\r\n",
                                        "-MOVED 1 a:1\r\n",
                                        "-\r\n"};
  auto wire = std::make_shared<Wire>();
  Connection connection(std::make_unique<ScriptedStream>(wire));
  std::mt19937_64 random(7);
  std::vector<std::vector<std::byte>> slots(64, std::vector<std::byte>(3000));
  int failed = 0, asked = 0, answered = 0;
  for (; failed < kErrors;) {
    std::string replies;
    for (std::vector<std::byte>& slot : slots) {
      const int number = asked++;
      const std::size_t size = 8 + random() % (slot.size() - 8);
      std::string payload(size, static_cast<char>('a' + number % 26));
      std::memcpy(payload.data(), &number, sizeof(number));
      const bool fails = random() % 2 == 0;
      const std::string error = errors[random() % errors.size()];
      replies += fails ? error : "$" + std::to_string(size) + "\r\n" + payload + "\r\n";
      Request request;
      request.around.before = "x";
      request.expect = {"$", size, std::span(slot).first(size)};
      request.then = [&, number, fails, payload, error](const Status& lost, const Reply& reply) {
        ASSERT_TRUE(lost.ok());
        ASSERT_EQ(number, answered++) << "in the order of the commands";
        ASSERT_EQ(reply.kind, fails ? Reply::Kind::kError : Reply::Kind::kPayload);
        if (fails) {
          ++failed;
          ASSERT_EQ("-" + reply.text + "\r\n", error);
        } else {
          ASSERT_EQ(std::memcmp(slot.data(), payload.data(), payload.size()), 0) << number;
        }
      };
      connection.ask(std::move(request), 0);
    }
    bool more = false;
    ASSERT_TRUE(connection.pump(0, more).ok());
    wire->to_us = replies;
    while (!wire->to_us.empty()) {
      wire->receive_at_most = 1 + random() % 5000;
      ASSERT_TRUE(connection.pump(0, more).ok());
    }
  }
  EXPECT_EQ(answered, asked);
}

// As over TLS: unwritten records are kept while their commands and later ones are cancelled. The
// server answers each received command with that command's own number.
// covers F-167
TEST(RemoteShiftTest, CommandsWithdrawnFromAHeldRecordNeverShiftReplies) {
  auto wire = std::make_shared<Wire>();
  Connection connection(std::make_unique<ScriptedStream>(wire));
  std::mt19937_64 random(11);
  std::vector<bool> cancelled(1);
  std::size_t answered = 0, replied = 0;
  for (std::uint64_t number = 1; number <= 50'000; ++number) {
    Request request;
    request.around.before = "<" + std::to_string(number) + ">" + std::string(random() % 30, '.');
    request.expect.types = "+";
    request.owner = number;
    request.then = [&, number](const Status& lost, const Reply& reply) {
      ASSERT_TRUE(lost.ok() && !cancelled[number]);
      ASSERT_EQ(reply.text, std::to_string(number));
      ++answered;
    };
    connection.ask(std::move(request), 0);
    cancelled.push_back(false);
    if (random() % 3 == 0) {
      const std::uint64_t other = number - random() % std::min<std::uint64_t>(number, 20);
      if (connection.cancel(other)) cancelled[other] = true;
    }
    wire->record_bytes = 1 + random() % 300;
    wire->blocked = number != 50'000 && random() % 2 == 0;
    bool more = false;
    ASSERT_TRUE(connection.pump(0, more).ok());
    for (std::size_t end; (end = wire->from_us.find('>')) != std::string::npos; ++replied) {
      const std::size_t begin = wire->from_us.find('<');
      ASSERT_LT(begin, end) << wire->from_us;
      wire->to_us += "+" + wire->from_us.substr(begin + 1, end - begin - 1) + "\r\n";
      wire->from_us.erase(0, end + 1);
    }
    while (!wire->to_us.empty()) ASSERT_TRUE(connection.pump(0, more).ok());
  }
  EXPECT_EQ(connection.commands(), 0U);
  EXPECT_GT(answered, 25'000U);
  EXPECT_LT(answered, replied) << "some were in a record when they were cancelled";
}

// The same through the whole tier: gets and looks on one connection, half of all answers errors.
// covers F-169
TEST(RemoteShiftTest, TierNeverShiftsReplies) {
  FakeServer server;
  RemoteOptions options;
  options.unix_path = server.socket();
  options.connections = 1;
  base::MonotonicClock clock;
  const Result<std::unique_ptr<tiers::Tier>> tier = open_remote_tier(clock, options);
  ASSERT_TRUE(tier.ok());
  Loop loop(**tier, clock);
  constexpr std::uint64_t kChunks = 16, kBytes = 8192;
  for (std::uint64_t i = 0; i < kChunks; ++i) ASSERT_TRUE(loop.put(i, 1, 1, kBytes).ok()) << i;
  std::atomic<int> errors = 0;
  std::atomic<std::uint64_t> state = 1;
  const HookScope hooked(server, [&](const FakeServer::Words& words) -> std::optional<std::string> {
    if (words[0] != "GET" && words[0] != "GETRANGE") return std::nullopt;
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    if ((state >> 33) % 2 == 0) return std::nullopt;
    ++errors;
    return (state >> 40) % 2 == 0 ? "-ERR out of luck\r\n" : "-TRYAGAIN later\r\n";
  });
  std::vector<tiers::ChunkKey> keys;
  for (std::uint64_t i = 0; i < tiers::kMaxProbeKeys; ++i) keys.push_back(key_of(i % kChunks));
  int good = 0, rounds = 0;
  while (errors < kErrors && ++rounds < 100'000) {
    const tiers::Ticket probe = loop.next();
    ASSERT_TRUE((*tier)->probe(probe, keys, loop.in_ms(20'000)).ok());
    for (std::uint64_t i = 0; i < kChunks; ++i) {
      const Status status = loop.get(i, 1, kBytes);
      ASSERT_NE(status.code(), Code::kInternal) << status.to_string();
      good += status.ok() ? 1 : 0;
    }
    EXPECT_FALSE(loop.ended(probe).ok());
  }
  EXPECT_GT(good, 100);
  EXPECT_EQ(server.connections, 1U) << "the connection outlives them all";
  server.set_hook({});
  for (std::uint64_t i = 0; i < kChunks; ++i) EXPECT_TRUE(loop.get(i, 1, kBytes).ok()) << i;
}

}  // namespace
}  // namespace larder::remote::testing_support

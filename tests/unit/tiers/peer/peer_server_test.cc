// The half that serves: what it tells, what it holds and for how long, and hostile clients.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <random>
#include <thread>

#include "tests/unit/tiers/peer/peer_fixture.h"

namespace larder::peer::testing_support {
namespace {

using test::eventually;
using testing::StartsWith;
using tiers::testing_support::key_of;

class PeerServerTest : public testing::Test {
 protected:
  ServerOptions quick() const {
    ServerOptions options;
    options.greet_ms = 200;
    options.stall_ms = 300;
    return options;
  }
  std::uint16_t port(const Holder& holder) const { return holder.endpoint().port; }
  static std::string look(std::uint64_t number, std::uint32_t hold_ms) {
    const tiers::ChunkKey key = key_of(number);
    return format_look({&key, 1}, hold_ms);
  }
  // The reply to a look for one chunk.
  static std::optional<tiers::ChunkFacts> found(const RawClient& client) {
    const std::string head = client.line();
    if (!head.starts_with("$")) return std::nullopt;
    const std::string bulk = client.receive(std::stoul(head.substr(1)));
    client.line();
    return parse_look_reply(bulk, 1)->front();
  }

  base::MonotonicClock clock_;
};

TEST_F(PeerServerTest, ReportsAndSendsItsChunks) {
  Holder holder(clock_);
  holder.put(1);
  RawClient client(port(holder));
  ASSERT_TRUE(client.send(format_ping()));
  EXPECT_EQ(client.line(), "+PONG\r\n") << "also before HELLO";
  client.hello();
  client.send(look(2, 100));
  EXPECT_FALSE(found(client).has_value());
  client.send(look(1, 1000));
  const std::optional<tiers::ChunkFacts> facts = found(client);
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(holder.memory->held(), 1U);
  tiers::testing_support::Slot slot(facts->slot_bytes());
  client.send(format_get(key_of(1), facts->generation, 0, facts->slot_bytes()));
  EXPECT_EQ(client.line(), "$" + std::to_string(facts->slot_bytes()) + "\r\n");
  const std::string bytes = client.receive(facts->slot_bytes());
  ASSERT_EQ(bytes.size(), facts->slot_bytes());
  std::memcpy(slot.span().data(), bytes.data(), bytes.size());
  EXPECT_TRUE(tiers::testing_support::holds(slot.span(), 1, *facts));
  EXPECT_EQ(client.line(), "\r\n");
  const tiers::ChunkKey key = key_of(1);
  client.send(format_done({&key, 1}));
  EXPECT_EQ(client.line(), "+OK\r\n");
  EXPECT_TRUE(eventually([&] { return holder.memory->held() == 0; }, 5000, 2));
}

// covers F-268
TEST_F(PeerServerTest, HoldEndsAtItsDeadlineAndWithItsSocket) {
  Holder holder(clock_);
  holder.put(1);
  holder.put(2);
  RawClient client(port(holder));
  client.hello();
  client.send(look(1, 150));
  ASSERT_TRUE(found(client).has_value());
  client.send(look(2, 2000));
  ASSERT_TRUE(found(client).has_value());
  EXPECT_EQ(holder.memory->held(), 2U);
  EXPECT_TRUE(eventually([&] { return holder.memory->held() == 1; }, 1500, 2)) << "150 ms are over";
  const auto from = std::chrono::steady_clock::now();
  client.close();
  EXPECT_TRUE(eventually([&] { return holder.memory->held() == 0; }, 1500, 1));
  EXPECT_LT(std::chrono::steady_clock::now() - from, std::chrono::milliseconds(1000))
      << "not by time";
}

TEST_F(PeerServerTest, AChunkStaysHeldWhileItIsSent) {
  Holder holder(clock_);
  holder.put(1, 1, 8 << 20);
  RawClient client(port(holder), 4096);
  client.hello();
  client.send(format_get(key_of(1), 1, 0, kMostPartBytes) +
              format_get(key_of(1), 1, kMostPartBytes, kMostPartBytes));
  ASSERT_TRUE(eventually([&] { return holder.memory->held() == 1; }, 5000, 1));
  const tiers::ChunkKey key = key_of(1);
  client.send(format_done({&key, 1}));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(holder.memory->held(), 1U) << "the rest is still to be sent";
  for (int part = 0; part < 2; ++part) {
    ASSERT_EQ(client.line(), "$4194304\r\n");
    ASSERT_EQ(client.receive(kMostPartBytes + 2).size(), kMostPartBytes + 2);
  }
  EXPECT_EQ(client.line(), "+OK\r\n");
  EXPECT_TRUE(eventually([&] { return holder.memory->held() == 0; }, 500, 1))
      << "DONE was said before";
}

TEST_F(PeerServerTest, RefusedHoldStillReportsTheChunk) {
  Holder holder(clock_);
  holder.put(1);
  holder.memory->refuse_holds();
  RawClient client(port(holder));
  client.hello();
  client.send(look(1, 1000));
  const std::optional<tiers::ChunkFacts> facts = found(client);
  ASSERT_TRUE(facts.has_value());
  client.send(format_get(key_of(1), facts->generation, 0, 4096));
  EXPECT_EQ(client.line(), "$-1\r\n") << "nothing is sent that is not held";
}

TEST_F(PeerServerTest, OtherGenerationOrPlaceIsAMiss) {
  Holder holder(clock_);
  holder.put(1, 7);
  RawClient client(port(holder));
  client.hello();
  for (const std::string& get :
       {format_get(key_of(1), 8, 0, 4096), format_get(key_of(2), 7, 0, 4096),
        format_get(key_of(1), 7, 1ULL << 62, 4096),
        format_get(key_of(1), 7, 1 << 20, kMostPartBytes)}) {
    client.send(get);
    EXPECT_EQ(client.line(), "$-1\r\n");
  }
  client.send(format_get(key_of(1), 7, 0, 4096));
  EXPECT_EQ(client.line(), "$4096\r\n");
}

// covers F-272
TEST_F(PeerServerTest, OtherPoolIsRefusedWithoutInformation) {
  Holder holder(clock_, quick());
  holder.put(1);
  RawClient client(port(holder));
  client.send(format_hello({"other", "raw", 1}));
  const std::string answer = client.line();
  EXPECT_THAT(answer, StartsWith("-WRONGPOOL"));
  EXPECT_EQ(answer.find("chat"), std::string::npos);
  client.send(look(1, 100));
  EXPECT_THAT(client.line(), StartsWith("-NOHELLO"));
  EXPECT_TRUE(client.ended()) << "no HELLO in time";
}

// covers F-271
TEST_F(PeerServerTest, MalformedRequestEndsOnlyItsConnection) {
  Holder holder(clock_, quick());
  holder.put(1);
  RawClient good(port(holder));
  good.hello();
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("*1000000\r\n"),
        std::string("*1\r\n$99999999\r\n"), std::string("*1\r\n:1\r\n:2\r\n"),
        std::string("\0\0\0\0", 4), std::string("*-1\r\n$5\r\n")}) {
    RawClient bad(port(holder));
    bad.send(bytes);
    EXPECT_TRUE(eventually([&] { return bad.line().empty(); }, 5000)) << bytes;
  }
  good.send(look(1, 100));
  EXPECT_TRUE(found(good).has_value());
}

// covers F-271
TEST_F(PeerServerTest, RandomFramesEndOnlyTheirConnection) {
  Holder holder(clock_, quick());
  holder.put(1);
  std::mt19937_64 random(7);
  const std::vector<std::string> good{format_ping(), format_hello({"chat", "raw", 1}), look(1, 50),
                                      format_get(key_of(1), 1, 0, 4096)};
  for (int round = 0; round < 300; ++round) {
    RawClient client(port(holder));
    std::string bytes;
    for (int i = 0; i < 20; ++i) {
      std::string frame = good[random() % good.size()];
      if (random() % 3 == 0) frame[random() % frame.size()] = static_cast<char>(random());
      if (random() % 7 == 0) frame.resize(random() % frame.size());
      bytes += frame;
    }
    client.send(bytes);
  }
  RawClient client(port(holder));
  client.hello();
  client.send(look(1, 100));
  EXPECT_TRUE(found(client).has_value());
  client.close();
  EXPECT_TRUE(eventually([&] { return holder.memory->held() == 0; }, 10'000, 5));
}

// covers F-270
TEST_F(PeerServerTest, FloodOfSocketsLeavesPeersServed) {
  ServerOptions options = quick();
  options.connections = 16;
  Holder holder(clock_, options);
  holder.put(1);
  RawClient good(port(holder));
  good.hello();
  std::vector<std::unique_ptr<RawClient>> flood;
  for (int i = 0; i < 200; ++i) flood.push_back(std::make_unique<RawClient>(port(holder)));
  good.send(look(1, 100));
  EXPECT_TRUE(found(good).has_value()) << "who said HELLO stays";
  RawClient late(port(holder));
  late.hello();
  EXPECT_TRUE(eventually([&] { return holder.server->counters().connections <= 16; }, 5000));
  EXPECT_TRUE(eventually([&] { return holder.server->counters().refused > 0; }, 5000));
}

// covers F-278
TEST_F(PeerServerTest, IdlePeersAreClosedAndHoldingPeersStay) {
  ServerOptions options;
  options.connections = 16;
  Holder holder(clock_, options);
  holder.put(1);
  RawClient good(port(holder));
  good.hello("chat", "good");
  good.send(look(1, kMostHoldMs));
  ASSERT_TRUE(found(good).has_value());
  std::vector<std::unique_ptr<RawClient>> idle;
  for (int i = 0; i < 40; ++i) {
    idle.push_back(std::make_unique<RawClient>(port(holder)));
    idle.back()->hello("chat", "idle" + std::to_string(i));
  }
  EXPECT_TRUE(idle.front()->ended()) << "the oldest";
  RawClient late(port(holder));
  late.hello("chat", "late");
  late.send(look(1, 100));
  EXPECT_TRUE(found(late).has_value());
  good.send(look(1, 100));
  EXPECT_TRUE(found(good).has_value()) << "it holds a chunk";
  EXPECT_TRUE(eventually([&] { return holder.server->counters().connections <= 8; }, 5000))
      << "of one address half of all";
}

// covers F-278
TEST_F(PeerServerTest, ConnectionsOfAPeerAreBounded) {
  Holder holder(clock_);
  std::vector<std::unique_ptr<RawClient>> all;
  for (int i = 0; i < 20; ++i) {
    all.push_back(std::make_unique<RawClient>(port(holder)));
    all.back()->hello();
  }
  EXPECT_TRUE(all.front()->ended());
  ASSERT_TRUE(all.back()->send(format_ping()));
  EXPECT_EQ(all.back()->line(), "+PONG\r\n");
  EXPECT_TRUE(eventually([&] { return holder.server->counters().connections == 8; }, 5000));
}

// The server once asked for the next connection again and again.
// covers F-277
TEST_F(PeerServerTest, WaitsAtTheDescriptorLimitWithoutSpinning) {
  Holder holder(clock_);
  const Fd waiting(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto next = static_cast<rlim_t>(Fd(::dup(waiting.get())).get());
  rlimit none = before;
  none.rlim_cur = next;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(port(holder));
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(waiting.get(), reinterpret_cast<const sockaddr*>(&where), sizeof(where)), 0);
  const auto used_ms = [] {
    timespec used{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1000 + used.tv_nsec / 1'000'000;
  };
  const auto from = used_ms();
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  const auto used = used_ms() - from;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LT(used, 200) << "ms of a processor in a second";
  RawClient client(port(holder));
  client.hello();
  EXPECT_TRUE(eventually([&] { return holder.server->counters().accepted == 2; }, 5000));
}

// The connection of questions and that of payloads once held each chunk for itself.
// covers F-268
TEST_F(PeerServerTest, ConnectionsOfAPeerShareOneHold) {
  Holder holder(clock_);
  holder.put(1);
  RawClient asks(port(holder)), reads(port(holder)), other(port(holder));
  asks.hello("chat", "peer");
  reads.hello("chat", "peer");
  other.hello("chat", "other");
  asks.send(look(1, kMostHoldMs));
  const std::optional<tiers::ChunkFacts> facts = found(asks);
  ASSERT_TRUE(facts.has_value());
  reads.send(format_get(key_of(1), facts->generation, 0, 4096));
  ASSERT_EQ(reads.line(), "$4096\r\n");
  ASSERT_EQ(reads.receive(4098).size(), 4098U);
  EXPECT_EQ(holder.memory->held(), 1U);
  const tiers::ChunkKey key = key_of(1);
  other.send(format_done({&key, 1}));
  EXPECT_EQ(other.line(), "+OK\r\n");
  EXPECT_EQ(holder.memory->held(), 1U) << "of another peer";
  asks.close();
  reads.send(format_get(key_of(1), facts->generation, 0, 4096));
  EXPECT_EQ(reads.line(), "$4096\r\n");
  EXPECT_EQ(holder.memory->held(), 1U);
  reads.close();
  EXPECT_TRUE(eventually([&] { return holder.memory->held() == 0; }, 1000, 1)) << "not by time";
}

// covers F-272
TEST_F(PeerServerTest, NewestCommonVersionIsNegotiated) {
  Holder holder(clock_);
  const auto answer = [&](std::uint32_t newest) {
    RawClient client(port(holder));
    const std::string version = std::to_string(newest);
    client.send(net::format_command(
        std::array<std::string_view, 6>{"HELLO", "larder", version, "chat", "raw", "1"}));
    std::string lines;
    for (int i = 0; i < 5 && !lines.starts_with("-"); ++i) lines += client.line();
    return lines;
  };
  EXPECT_EQ(answer(kProtocol + 1),
            "*5\r\n$6\r\nlarder\r\n$1\r\n" + std::to_string(kProtocol) + "\r\n");
  EXPECT_EQ(answer(kOldestProtocol),
            "*5\r\n$6\r\nlarder\r\n$1\r\n" + std::to_string(kOldestProtocol) + "\r\n");
  EXPECT_THAT(answer(kOldestProtocol - 1), StartsWith("-NOPROTO"));
}

// covers F-269
TEST_F(PeerServerTest, PeerNotReadingIsClosedAndLosesItsHolds) {
  Holder holder(clock_, quick());
  for (std::uint64_t n = 1; n <= 32; ++n) holder.put(n);
  RawClient client(port(holder));
  client.hello();
  std::string all;
  for (int times = 0; times < 4; ++times)
    for (std::uint64_t n = 1; n <= 32; ++n) all += format_get(key_of(n), 1, 0, 1 << 20);
  client.send(all);  // 128 MiB, more than the kernel takes for a client that does not read
  EXPECT_TRUE(eventually([&] { return holder.server->counters().stalled == 1; }, 10'000, 5));
  EXPECT_TRUE(eventually([&] { return holder.memory->held() == 0; }, 5000, 5));
}

TEST_F(PeerServerTest, PipelinedRequestsAreAnsweredInOrder) {
  Holder holder(clock_);
  RawClient client(port(holder));
  client.hello();
  std::string all;
  for (int i = 0; i < 1000; ++i) all += i % 2 == 0 ? format_ping() : look(1, 0);
  std::jthread sender([&] { client.send(all); });
  for (int i = 0; i < 1000; ++i) {
    if (i % 2 == 0)
      ASSERT_EQ(client.line(), "+PONG\r\n") << i;
    else
      ASSERT_FALSE(found(client).has_value()) << i;
  }
}

// A sender that outran the parsing once kept the thread in one turn.
TEST_F(PeerServerTest, EndlessSenderBlocksNoOtherPeer) {
  Holder holder(clock_);
  RawClient flood(port(holder));
  flood.hello();
  std::string large = "*2\r\n$4\r\nNOPE\r\n$60000\r\n" + std::string(60'000, 'x') + "\r\n";
  std::jthread reader([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && !flood.receive(1).empty()) {
    }
  });
  std::jthread sender([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && flood.send(large)) {
    }
  });
  RawClient other(port(holder));
  other.hello();
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(other.send(format_ping()));
    ASSERT_EQ(other.line(), "+PONG\r\n") << i;
  }
  const auto from = std::chrono::steady_clock::now();
  holder.server->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - from, std::chrono::seconds(5));
}

TEST_F(PeerServerTest, RateLimitAppliesToAllPeersTogether) {
  ServerOptions options;
  options.bytes_per_s = 4 << 20;
  Holder holder(clock_, options);
  holder.put(1);
  RawClient client(port(holder));
  client.hello();
  const auto from = std::chrono::steady_clock::now();
  std::string all;
  for (int i = 0; i < 12; ++i) all += format_get(key_of(1), 1, 0, 1 << 20);
  client.send(all);
  for (int i = 0; i < 12; ++i) {
    ASSERT_EQ(client.line(), "$1048576\r\n");
    ASSERT_EQ(client.receive((1 << 20) + 2).size(), (1U << 20) + 2);
  }
  const auto took = std::chrono::steady_clock::now() - from;
  EXPECT_GT(took, std::chrono::milliseconds(700))
      << "12 MiB at 4 MiB a second, a second's burst and the last chunk apart";
}

TEST_F(PeerServerTest, WrongAddressIsReported) {
  ServerOptions options;
  options.listen = {"192.0.2.1", 9465};
  options.self = make_instance("chat", 1);
  EXPECT_THAT(PeerServer::start(clock_, options).status().text(),
              StartsWith("peers.listen 192.0.2.1:9465"));
}

}  // namespace
}  // namespace larder::peer::testing_support

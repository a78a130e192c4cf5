// The worst answers of a Cluster's nodes, and of Sentinels: bounded, each a miss, and the tier is
// well again by itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "sidecar/tiers/remote/format.h"
#include "sidecar/tiers/remote/topology/backend.h"
#include "tests/eventually.h"
#include "tests/patient.h"
#include "tests/unit/tiers/remote/tier_fixture.h"

namespace larder::remote::testing_support {
namespace {

using testing::HasSubstr;
using tiers::testing_support::key_of;
using tiers::testing_support::Loop;
using tiers::testing_support::Slot;

class RemoteClusterHostileTest : public TierFixture {
 protected:
  RemoteClusterHostileTest() : TierFixture(FakeServer::Kind::kCluster) {}
  void expect_well() {
    server_.set_hook({});
    EXPECT_TRUE(eventually([&] {
      return loop_->put(99, 1, 1, kBytes).ok() && loop_->get(99, 1, kBytes).ok();
    })) << tier_->state().reason;
    EXPECT_FALSE(tier_->state().degraded());
  }
  std::string here() const { return "127.0.0.1:" + std::to_string(server_.port()); }
};

// covers F-192
TEST_F(RemoteClusterHostileTest, EndlessRedirectionsAreBounded) {
  open();
  ASSERT_EQ(loop_->put(1, 1, 1, kBytes).to_string(), "ok");
  for (const std::string& error :
       {"MOVED 1 " + here(), "ASK 1 " + here(), std::string("TRYAGAIN later"),
        "MOVED 1 :" + std::to_string(server_.port())}) {
    std::atomic<std::uint32_t> asked = 0;
    const HookScope hooked(server_,
                           [&](const FakeServer::Words& words) -> std::optional<std::string> {
                             if (words[0] != "GET") return std::nullopt;
                             ++asked;
                             return "-" + error + "\r\n";
                           });
    EXPECT_EQ(loop_->get(1, 1, kBytes).code(), Code::kUnavailable) << error;
    EXPECT_EQ(asked, Backend::kMostHops + 1) << error;
    expect_well();
    EXPECT_TRUE(loop_->get(1, 1, kBytes).ok()) << "nobody else's reply: " << error;
  }
}

// covers F-192
TEST_F(RemoteClusterHostileTest, InvalidRedirectionsCostOneMiss) {
  open();
  ASSERT_EQ(loop_->put(1, 1, 1, kBytes).to_string(), "ok");
  for (const std::string error :
       {"MOVED", "MOVED 1 nothing", "MOVED 1 127.0.0.1:1", "ASK 1 127.0.0.1:1",
        "ASK 99999999999 a b:c:", "MOVED 1 no-such-host.invalid:7000", "ASK 1 192.0.2.1:7000"}) {
    const HookScope hooked(
        server_, [&](const FakeServer::Words& words) -> std::optional<std::string> {
          return words[0] == "GET" ? std::optional("-" + error + "\r\n") : std::nullopt;
        });
    const std::uint64_t start = clock_.now_ns();
    EXPECT_EQ(loop_->get(1, 1, kBytes).code(), Code::kUnavailable) << error;
    EXPECT_LT(clock_.now_ns() - start, 1'000'000'000U) << error;
    expect_well();
    EXPECT_TRUE(eventually([&] { return loop_->get(1, 1, kBytes).ok(); }))
        << "the map tells whose it is: " << error;
  }
}

// covers F-192
TEST_F(RemoteClusterHostileTest, RedirectedCommandsAreBounded) {
  open();
  ASSERT_EQ(loop_->put(1, 1, 1, kBytes).to_string(), "ok");
  std::atomic<unsigned> port = 1;
  const HookScope hooked(server_,
                         [&](const FakeServer::Words& words) -> std::optional<std::string> {
                           if (words[0] != "GETRANGE") return std::nullopt;
                           return "-ASK 1 127.0.0.1:" + std::to_string(port++ % 1000 + 1) + "\r\n";
                         });
  std::vector<tiers::ChunkKey> keys;
  for (std::uint64_t i = 0; i < tiers::kMaxProbeKeys; ++i) keys.push_back(key_of(i));
  const std::uint64_t start = clock_.now_ns();
  EXPECT_TRUE(loop_->probe(keys).empty());
  EXPECT_LT(clock_.now_ns() - start, 2'000'000'000U);
  expect_well();
}

// As after resharding by single slots: 16,384 ranges, each with a replica.
TEST_F(RemoteClusterHostileTest, MapWithOneRangePerSlotIsRead) {
  FakeServer other({}, FakeServer::Kind::kCluster);
  const auto node = [](std::uint16_t port) {
    return "*4\r\n$9\r\n127.0.0.1\r\n:" + std::to_string(port) + "\r\n$40\r\n" +
           std::string(40, 'a') + "\r\n*0\r\n";
  };
  std::string map = "*16384\r\n";
  for (std::size_t slot = 0; slot < kSlots; ++slot)
    map += "*4\r\n:" + std::to_string(slot) + "\r\n:" + std::to_string(slot) + "\r\n" +
           node(slot % 2 == 0 ? server_.port() : other.port()) + node(1);
  // A copy of the map: server_ outlives the map.
  const auto hook = [map](const FakeServer::Words& words) {
    return words[0] == "CLUSTER" ? std::optional(map) : std::nullopt;
  };
  const HookScope hooked(server_, hook);
  const HookScope hooked_other(other, hook);
  options_ = test::patient(options_);
  open();
  for (std::uint64_t number = 0; number < 20; ++number) {
    ASSERT_EQ(loop_->put(number, 1, 1, kBytes).to_string(), "ok") << tier_->state().reason;
    EXPECT_TRUE(loop_->get(number, 1, kBytes).ok());
  }
  for (const std::string& key : other.keys()) EXPECT_EQ(slot_of(key) % 2, 1) << key;
  EXPECT_FALSE(other.keys().empty() || server_.keys().empty());
}

// covers F-193
TEST_F(RemoteClusterHostileTest, MalformedMapIsReportedAndRequestedAgain) {
  for (const char* map :
       {"*0\r\n", "*1\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:99999\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "-ERR no\r\n", "-NOPERM this user has no permissions\r\n",
        "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\n?\r\n:1\r\n"}) {
    const HookScope hooked(
        server_, [&](const FakeServer::Words& words) -> std::optional<std::string> {
          return words[0] == "CLUSTER" ? std::optional<std::string>(map) : std::nullopt;
        });
    open();
    EXPECT_TRUE(eventually([&] { return tier_->state().degraded(); })) << map;
    EXPECT_FALSE(loop_->put(1, 1, 1, kBytes).ok()) << map;
    expect_well();
    EXPECT_TRUE(tier_->close(1000));
  }
}

// covers F-193
TEST_F(RemoteClusterHostileTest, LaterMalformedMapIsIgnored) {
  open();
  ASSERT_EQ(loop_->put(1, 1, 1, kBytes).to_string(), "ok");
  std::atomic<unsigned> maps = 0;
  const HookScope hooked(server_,
                         [&](const FakeServer::Words& words) -> std::optional<std::string> {
                           if (words[0] == "CLUSTER") return ++maps, "*1\r\n*1\r\n:5\r\n";
                           if (words[0] == "GET" && maps == 0) return "-CLUSTERDOWN for now\r\n";
                           return std::nullopt;
                         });
  EXPECT_FALSE(loop_->get(1, 1, kBytes).ok());
  EXPECT_TRUE(eventually([&] { return maps > 1; }));
  EXPECT_TRUE(eventually([&] { return loop_->get(1, 1, kBytes).ok(); }));
}

// Found by a crash: with one node gone the get failed at once, and the slot was the caller's while
// the others' parts still came.
// covers F-191
TEST_F(RemoteClusterHostileTest, SlotIsReleasedAfterPartsOfAllNodes) {
  constexpr std::uint64_t kLarge = 9 << 20;
  FakeServer other({}, FakeServer::Kind::kCluster);
  std::atomic<unsigned> asked = 0, asked_other = 0;
  const auto hook = [&](std::atomic<unsigned>& count) {
    return [&](const FakeServer::Words& words) -> std::optional<std::string> {
      if (words[0] == "GET") ++count;
      return words[0] == "CLUSTER"
                 ? std::optional(FakeServer::slots({server_.port(), other.port()}))
                 : std::nullopt;
    };
  };
  const HookScope hooked(server_, hook(asked));
  const HookScope hooked_other(other, hook(asked_other));
  options_ = test::patient(options_);
  open();
  std::uint64_t number = 0;  // of a chunk with parts at both: chance decides
  const auto has_parts = [&](FakeServer& server) {
    const std::vector<std::string> keys = server.keys();
    const std::string start = record_key("larder", key_of(number)) + ":";
    return std::ranges::any_of(keys,
                               [&](const std::string& key) { return key.starts_with(start); });
  };
  do {
    ASSERT_EQ(loop_->put(++number, 1, 1, kLarge).to_string(), "ok");
  } while (!has_parts(server_) || !has_parts(other));
  ASSERT_EQ(loop_->get(number, 1, kLarge).to_string(), "ok");
  asked = asked_other = 0;
  server_.holds = other.mute = true;
  Slot slot(protocol::slot_bytes(kLarge, tiers::testing_support::kPieceBytes));
  const tiers::Ticket ticket = loop_->next();
  ASSERT_TRUE(tier_->get(ticket, key_of(number), slot.span(), loop_->in_ms(20'000)).ok());
  ASSERT_TRUE(eventually([&] { return asked > 0 && asked_other > 0; }));
  other.hang_up();
  ASSERT_TRUE(eventually(
      [&] { return tier_->state().reason.find("1 of 2 masters") != std::string::npos; }));
  EXPECT_TRUE(loop_->of(ticket).empty()) << "the first has its parts still to send";
  server_.holds = false;
  EXPECT_EQ(loop_->ended(ticket).code(), Code::kUnavailable);
  std::memset(slot.span().data(), 0x11, slot.span().size());
  for (int i = 0; i < 30; ++i) loop_->collect(10);
  for (const std::byte byte : slot.span()) ASSERT_EQ(byte, std::byte{0x11});
  // The loss of the node is known now: no node is asked for a chunk that cannot be complete.
  asked = asked_other = 0;
  EXPECT_EQ(loop_->get(number, 1, kLarge).code(), Code::kUnavailable);
  EXPECT_EQ(asked + asked_other, 0U);
}

// covers F-189
TEST_F(RemoteClusterHostileTest, LoadingNodeDoesNotBlockOtherNodes) {
  FakeServer other({}, FakeServer::Kind::kCluster);
  const auto map = [&] { return FakeServer::slots({server_.port(), other.port()}); };
  std::atomic<bool> loading = false, both = false;
  const auto answer = [&](const FakeServer::Words& words,
                          bool unwell) -> std::optional<std::string> {
    if (words[0] == "CLUSTER") return map();
    const bool data = words[0] == "GET" || words[0] == "SET" || words[0] == "GETRANGE";
    return unwell && data
               ? std::optional<std::string>("-LOADING Redis is loading the dataset in memory\r\n")
               : std::nullopt;
  };
  const HookScope hooked(server_,
                         [&](const FakeServer::Words& words) { return answer(words, both); });
  const HookScope hooked_other(
      other, [&](const FakeServer::Words& words) { return answer(words, loading || both); });
  open();
  const auto slots_of = [](std::uint64_t number) {
    return slot_of(record_key("larder", key_of(number)));
  };
  std::vector<tiers::ChunkKey> keys;
  std::vector<bool> all, of_the_first;
  for (std::uint64_t number = 0; number < 40; ++number) {
    ASSERT_EQ(loop_->put(number, 1, 1, kBytes).to_string(), "ok");
    keys.push_back(key_of(number));
    all.push_back(true);
    of_the_first.push_back(slots_of(number) < kSlots / 2);
  }
  EXPECT_EQ(loop_->probe(keys), all);
  loading = true;
  EXPECT_EQ(loop_->probe(keys), of_the_first) << "an answering node is believed";
  ASSERT_TRUE(eventually([&] { return !tier_->state().reason.empty(); }));
  EXPECT_THAT(tier_->state().reason,
              testing::AllOf(HasSubstr("1 of 2 masters of the Cluster"), HasSubstr("LOADING")));
  EXPECT_FALSE(tier_->state().degraded());
  unsigned got = 0, put = 0;
  for (std::uint64_t number = 0; number < 40; ++number) {
    got += loop_->get(number, 1, kBytes).ok();
    put += loop_->put(number, 2, 1, kBytes).ok();
  }
  EXPECT_GT(got, 0U);
  EXPECT_LT(got, 40U);
  EXPECT_GT(put, 0U);
  EXPECT_LT(put, 40U);
  both = true;
  ASSERT_TRUE(eventually([&] { return loop_->probe(keys), tier_->state().degraded(); }));
  EXPECT_THAT(tier_->state().reason, testing::StartsWith("the server is loading"));
  both = loading = false;
  EXPECT_TRUE(eventually([&] { return tier_->state().reason.empty(); }, 1000))
      << tier_->state().reason;
  EXPECT_EQ(loop_->probe(keys), all);
}

// Puts are sent in order: a put that waited for an impossible removal would keep all others
// waiting, until its deadline.
// covers F-190
TEST_F(RemoteClusterHostileTest, PendingRemovalsOfADownNodeDoNotBlockOthers) {
  FakeServer other({}, FakeServer::Kind::kCluster);
  const auto hook = [&](const FakeServer::Words& words) -> std::optional<std::string> {
    return words[0] == "CLUSTER" ? std::optional(FakeServer::slots({server_.port(), other.port()}))
                                 : std::nullopt;
  };
  const HookScope hooked(server_, hook);
  const HookScope hooked_other(other, hook);
  open();
  const auto upper = [](std::uint64_t number) {
    return slot_of(record_key("larder", key_of(number))) >= kSlots / 2;
  };
  std::uint64_t away = 1;
  while (!upper(away)) ++away;
  ASSERT_EQ(loop_->put(away, 1, 1, kBytes).to_string(), "ok");
  other.mute = true;
  other.hang_up();
  ASSERT_TRUE(eventually(
      [&] { return tier_->state().reason.find("1 of 2 masters") != std::string::npos; }));
  static_cast<void>(tier_->evict(key_of(away)));
  const std::uint64_t start = clock_.now_ns();
  EXPECT_EQ(loop_->put(away, 2, 1, kBytes).code(), Code::kUnavailable);
  EXPECT_TRUE(loop_->flush().ok()) << "an impossible removal is not waited for";
  EXPECT_LT(clock_.now_ns() - start, 3'000'000'000U);
  other.mute = false;
  EXPECT_TRUE(eventually([&] { return other.keys().empty(); })) << "it goes once its node is back";
  EXPECT_TRUE(eventually([&] { return loop_->put(away, 2, 1, kBytes).ok(); }));
  EXPECT_TRUE(tier_->close(1000));
}

TEST_F(RemoteClusterHostileTest, DropRestartsAfterSlotsMoved) {
  FakeServer other({}, FakeServer::Kind::kCluster);
  std::atomic<unsigned> scans = 0, moved = 0;
  const auto hook = [&](const FakeServer::Words& words) -> std::optional<std::string> {
    if (words[0] == "CLUSTER") return FakeServer::slots({server_.port(), other.port()});
    if (words[0] == "SCAN") ++scans;
    if (words[0] == "UNLINK" && moved++ == 0)
      return "-MOVED 1 127.0.0.1:" + std::to_string(other.port()) + "\r\n";
    return std::nullopt;
  };
  const HookScope hooked(server_, hook);
  const HookScope hooked_other(
      other, [&](const FakeServer::Words& words) -> std::optional<std::string> {
        return words[0] == "CLUSTER"
                   ? std::optional(FakeServer::slots({server_.port(), other.port()}))
                   : std::nullopt;
      });
  open();
  std::uint64_t number = 0;
  while (slot_of(record_key("larder", key_of(number))) >= kSlots / 2) ++number;
  ASSERT_EQ(loop_->put(number, 1, 1, kBytes).to_string(), "ok");
  EXPECT_EQ(loop_->drop(1).to_string(), "ok");
  EXPECT_GE(scans, 2U) << "of the first node";
  EXPECT_TRUE(eventually([&] { return loop_->get(number, 1, kBytes).code() == Code::kNotFound; }));
}

// Otherwise each trial sends all parts to the others, and then the refused record.
TEST_F(RemoteClusterHostileTest, RefusingServerIsRetriedWithOnePart) {
  FakeServer other({}, FakeServer::Kind::kCluster);
  const auto hook = [&](const FakeServer::Words& words) -> std::optional<std::string> {
    return words[0] == "CLUSTER" ? std::optional(FakeServer::slots({server_.port(), other.port()}))
                                 : std::nullopt;
  };
  const HookScope hooked(server_, hook);
  const HookScope hooked_other(other, hook);
  Backend backend(options_, clock_, {[] {}, [] {}});
  ASSERT_TRUE(backend.open().ok());
  const auto key_in = [](bool upper) {
    std::uint64_t number = 0;
    while ((slot_of("key" + std::to_string(number)) >= kSlots / 2) != upper) ++number;
    return "key" + std::to_string(number);
  };
  const std::string good = key_in(false), bad = key_in(true);
  ASSERT_TRUE(eventually([&] {
    backend.turn(1'000'000);
    backend.flush();
    return backend.refusal(good, Lane::kWrites).ok() && backend.refusal(bad, Lane::kWrites).ok();
  }));
  using Tried = std::optional<std::size_t>;
  EXPECT_EQ(backend.begin_chunk({bad, good, bad}, kBytes, 1), Tried());
  backend.chunk_refused(bad, {kBytes, kBytes, clock_.now_ns()}, meaning_of("ERR too long"));
  EXPECT_EQ(backend.begin_chunk({bad, good, bad}, kBytes, 1), Tried(2));
  EXPECT_EQ(backend.begin_chunk({good, bad, bad}, kBytes, 1), Tried(1));
  EXPECT_EQ(backend.begin_chunk({bad, good}, kBytes, 1), Tried(0)) << "no part of it is there";
  EXPECT_EQ(backend.begin_chunk({good, good}, kBytes, 1), Tried());
}

// Three nodes that send every third command on, to each other or themselves, or refuse the command.
TEST(RemoteClusterShiftTest, RandomRedirectionsNeverShiftReplies) {
  std::atomic<std::uint64_t> count = 0;
  std::vector<std::uint16_t> ports;
  std::vector<std::unique_ptr<FakeServer>> nodes;  // whose hooks refer to both
  for (int i = 0; i < 3; ++i) {
    nodes.push_back(std::make_unique<FakeServer>(FakeServer::Hook(), FakeServer::Kind::kCluster));
    ports.push_back(nodes.back()->port());
  }
  for (const auto& node : nodes)
    node->set_hook([&](const FakeServer::Words& words) -> std::optional<std::string> {
      if (words[0] == "CLUSTER") return FakeServer::slots(ports);
      if (words[0] != "GET" && words[0] != "SET" && words[0] != "GETRANGE" && words[0] != "UNLINK")
        return std::nullopt;
      std::uint64_t random = ++count * 0x9e3779b97f4a7c15ULL;
      random ^= random >> 29;
      const std::string to = "127.0.0.1:" + std::to_string(ports[random / 7 % 3]);
      switch (random % 21) {
        case 0:
        case 1: return "-MOVED 5 " + to + "\r\n";
        case 2:
        case 3: return "-ASK 5 " + to + "\r\n";
        case 4: return "-TRYAGAIN later\r\n";
        case 5: return "-ERR out of luck\r\n";
        case 6: return "-MOVED nonsense\r\n";
        default: return std::nullopt;
      }
    });
  RemoteOptions options;
  options.refused_ms = options.trial_bytes_per_s = 0;  // random errors say no word about a chunk
  options.mode = Mode::kCluster;
  options.endpoints = {{"127.0.0.1", ports.front()}};
  const base::MonotonicClock clock;
  const std::unique_ptr<tiers::Tier> tier = *open_remote_tier(clock, options);
  Loop loop(*tier, clock);
  std::uint64_t good = 0;
  for (std::uint64_t i = 0; i < 1500; ++i) {
    // A connection whose first question gets such an answer is no connection, and is made again.
    ASSERT_TRUE(test::eventually([&] { return !tier->state().degraded(); }));
    static_cast<void>(loop.put(i % 50, i, 1, kBytes));
    for (const std::uint64_t number : {i % 50, (i + 7) % 50}) {
      const Status got = loop.get(number, 1, kBytes);
      ASSERT_NE(got.code(), Code::kInternal) << got.to_string();
      good += got.ok() ? 1 : 0;
    }
  }
  EXPECT_GT(good, 300U);
  EXPECT_GT(count, 10'000U);
  EXPECT_LT(tier->counters().refused, 300U)
      << "a trial ends with its put, also where a redirection has moved its slot";
}

TEST(RemoteModesTest, WrongOptionsAreReported) {
  const base::MonotonicClock clock;
  RemoteOptions cluster, sentinel, alone;
  cluster.mode = Mode::kCluster;
  sentinel.mode = Mode::kSentinel;
  cluster.endpoints = sentinel.endpoints = {{"a", 1}};
  sentinel.sentinel_master = "pool";
  alone.host = "a";
  const auto wrong = [&](RemoteOptions options, auto change) {
    change(options);
    return open_remote_tier(clock, options).status().text();
  };
  EXPECT_THAT(wrong(cluster, [](RemoteOptions& o) { o.endpoints.clear(); }),
              HasSubstr("backend.endpoints"));
  EXPECT_THAT(wrong(cluster,
                    [](RemoteOptions& o) {
                      o.endpoints.assign(33, {"a", 1});
                    }),
              HasSubstr("backend.endpoints"));
  EXPECT_THAT(wrong(cluster, [](RemoteOptions& o) { o.endpoints[0].port = 0; }),
              HasSubstr("backend.endpoints"));
  EXPECT_THAT(wrong(cluster, [](RemoteOptions& o) { o.endpoints[0].unix_path = "/a"; }),
              HasSubstr("backend.endpoints"));
  EXPECT_THAT(wrong(cluster, [](RemoteOptions& o) { o.host = "a"; }), HasSubstr("backend.host"));
  EXPECT_THAT(wrong(cluster, [](RemoteOptions& o) { o.database = 1; }),
              HasSubstr("backend.database"));
  EXPECT_THAT(wrong(cluster, [](RemoteOptions& o) { o.sentinel_master = "a"; }),
              HasSubstr("backend.sentinel_master"));
  EXPECT_THAT(wrong(sentinel, [](RemoteOptions& o) { o.sentinel_master.clear(); }),
              HasSubstr("backend.sentinel_master"));
  EXPECT_THAT(wrong(sentinel, [](RemoteOptions& o) { o.sentinel_user = "u"; }),
              HasSubstr("backend.sentinel_password_file"));
  EXPECT_THAT(wrong(alone,
                    [](RemoteOptions& o) {
                      o.endpoints = {{"a", 1}};
                    }),
              HasSubstr("backend.endpoints"));
  EXPECT_THAT(wrong(alone, [](RemoteOptions& o) { o.sentinel_password_file = "f"; }),
              HasSubstr("backend.sentinel_password_file"));
}

TEST(RemoteProbeTest, AllNodesAreProbedInOneParallelRoundTrip) {
  std::atomic<unsigned> asked = 0;
  std::vector<std::unique_ptr<FakeServer>> nodes;
  std::vector<std::uint16_t> ports;
  for (int i = 0; i < 3; ++i) {
    nodes.push_back(std::make_unique<FakeServer>(FakeServer::Hook(), FakeServer::Kind::kCluster));
    ports.push_back(nodes.back()->port());
  }
  RemoteOptions options = test::patient({});
  options.mode = Mode::kCluster;
  options.endpoints = {{"127.0.0.1", ports.front()}};
  for (const auto& node : nodes)
    node->set_hook([&asked, map = FakeServer::slots(ports)](
                       const FakeServer::Words& words) -> std::optional<std::string> {
      // a probe of the server's health reads one byte
      asked += words[0] == "GETRANGE" && words[3] != "0";
      return words[0] == "CLUSTER" ? std::optional(map) : std::nullopt;
    });
  const base::MonotonicClock clock;
  const std::unique_ptr<tiers::Tier> tier = *open_remote_tier(clock, options);
  Loop loop(*tier, clock);
  std::vector<tiers::ChunkKey> keys;
  for (std::uint64_t i = 0; i < tiers::kMaxProbeKeys; ++i) keys.push_back(key_of(i));
  for (std::uint64_t i = 0; i < 9; ++i) ASSERT_EQ(loop.put(i, 1, 1, kBytes).to_string(), "ok");
  for (const auto& node : nodes) EXPECT_FALSE(node->keys().empty());
  ASSERT_EQ(loop.probe(keys).size(), keys.size()) << "all are connected to";
  asked = 0;
  for (const auto& node : nodes) node->holds = true;
  const tiers::Ticket ticket = loop.next();
  ASSERT_TRUE(tier->probe(ticket, keys, loop.in_ms(20'000)).ok());
  EXPECT_TRUE(test::eventually([&] { return asked == keys.size(); }, 5000))
      << asked << " were asked for before any answer";
  for (const auto& node : nodes) node->holds = false;
  const tiers::Message message = loop.done(ticket).value_or(tiers::Message{});
  EXPECT_EQ(asked, keys.size()) << "and no key after that";
  ASSERT_EQ(message.there.size(), keys.size());
  for (std::uint64_t i = 0; i < keys.size(); ++i) EXPECT_EQ(message.there[i], i < 9) << i;
}

// covers F-196
TEST(RemoteSentinelHostileTest, AnswersWithoutMasterAreIgnored) {
  FakeServer sentinel({}, FakeServer::Kind::kSentinel);
  RemoteOptions options;
  options.mode = Mode::kSentinel;
  options.endpoints = {{"127.0.0.1", sentinel.port()}};
  options.sentinel_master = "pool";
  for (const char* answer :
       {"*-1\r\n", "*0\r\n", "*1\r\n$1\r\na\r\n", "*2\r\n$1\r\na\r\n$1\r\nb\r\n",
        "*2\r\n$0\r\n\r\n$1\r\n1\r\n", "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n70000\r\n",
        "-ERR No such master\r\n"}) {
    const HookScope hooked(
        sentinel, [&](const FakeServer::Words& words) -> std::optional<std::string> {
          return words[0] == "SENTINEL" ? std::optional<std::string>(answer) : std::nullopt;
        });
    const base::MonotonicClock clock;
    const std::unique_ptr<tiers::Tier> tier = *open_remote_tier(clock, options);
    Loop loop(*tier, clock);
    for (int i = 0; i < 200 && !tier->state().degraded(); ++i) loop.collect(5);
    EXPECT_THAT(tier->state().reason, HasSubstr("know no master pool")) << answer;
  }
}

}  // namespace
}  // namespace larder::remote::testing_support

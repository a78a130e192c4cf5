// Garbage goes from the server, no other key does, and a refused removal costs no other
// operation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <set>
#include <thread>

#include "sidecar/tiers/remote/chunks/remote_engine.h"
#include "sidecar/tiers/remote/format.h"
#include "tests/patient.h"
#include "tests/unit/tiers/listener.h"
#include "tests/unit/tiers/remote/tier_fixture.h"

namespace larder::remote::testing_support {
namespace {

using testing::HasSubstr;
using tiers::testing_support::key_of;
using tiers::testing_support::Listener;
using tiers::testing_support::Slot;

class RemoteGarbageTest : public TierFixture {};
class RemoteGarbageClusterTest : public TierFixture {
 protected:
  RemoteGarbageClusterTest() : TierFixture(FakeServer::Kind::kCluster) {}
};

class RemoteInTransitTest : public TierFixture,
                            public testing::WithParamInterface<FakeServer::Kind> {
 protected:
  RemoteInTransitTest() : TierFixture(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Modes, RemoteInTransitTest,
                         testing::Values(FakeServer::Kind::kStandalone,
                                         FakeServer::Kind::kCluster));

TEST_F(RemoteGarbageTest, ForgetKeepsPutsBeforeAndAfterIt) {
  Node one(options_), other(options_);
  for (std::uint64_t i = 0; i < 40; ++i) {
    ASSERT_TRUE(one.loop.put(i, 1, 1, kBytes).ok());
    if (i % 2 == 0) one.tier->forget(key_of(i), 1);
    const tiers::Ticket put = one.put(i, 2);
    if (i % 2 == 1) one.tier->forget(key_of(i), 1);
    ASSERT_EQ(one.loop.ended(put).to_string(), "ok");
    ASSERT_TRUE(one.loop.flush().ok());
    EXPECT_EQ(other.loop.probe(std::vector{key_of(i)}), std::vector{true}) << i;
    EXPECT_TRUE(other.loop.get(i, 1, kBytes).ok()) << i;
  }
  EXPECT_EQ(server_.keys().size(), 80U) << "each a record and a part";
}

// covers F-179
TEST_F(RemoteGarbageTest, FailedRemovalIsRetriedAndBlocksPutsOfItsKey) {
  Node node(options_);
  ASSERT_TRUE(node.loop.put(1, 1, 1, kBytes).ok() && node.loop.put(2, 1, 1, kBytes).ok());
  answer("UNLINK", "-NOPERM this user\r\n");
  node.tier->forget(key_of(1), 1);
  EXPECT_TRUE(node.tier->evict(key_of(2)).ok());
  EXPECT_EQ(node.loop.get(1, 1, kBytes).code(), Code::kNotFound);
  EXPECT_EQ(node.loop.get(2, 1, kBytes).code(), Code::kNotFound);
  EXPECT_EQ(node.loop.put(1, 2, 1, kBytes).code(), Code::kUnavailable);
  EXPECT_TRUE(node.loop.put(3, 1, 1, kBytes).ok()) << "others do not wait for it";
  EXPECT_FALSE(node.tier->state().degraded());
  server_.set_hook({});
  EXPECT_TRUE(eventually([&] { return server_.keys().size() == 2; }));
  EXPECT_TRUE(eventually([&] { return node.loop.put(1, 2, 1, kBytes).ok(); }));
}

TEST_F(RemoteGarbageTest, EvictionEndsEarlierPutsAndRemovesForeignChunks) {
  Node one(options_), other(options_);
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(one.loop.put(i, 3, 1, kBytes).ok());
    const tiers::Ticket before = i % 2 == 0 ? 0 : other.put(i, 4);
    EXPECT_TRUE(other.tier->evict(key_of(i)).ok());
    // the removal may have been quicker
    if (before != 0) static_cast<void>(other.loop.ended(before));
    EXPECT_EQ(other.loop.get(i, 1, kBytes).code(), Code::kNotFound);
    ASSERT_TRUE(other.loop.flush().ok());
    EXPECT_FALSE(other.tier->probe(key_of(i)).has_value());
  }
  EXPECT_TRUE(eventually([&] { return server_.keys().empty(); }));
  ASSERT_TRUE(other.loop.put(1, 5, 1, kBytes).ok());
  EXPECT_TRUE(one.loop.get(1, 1, kBytes).ok());
}

// covers F-176
TEST_F(RemoteGarbageTest, RefusedPutKeepsThePresentChunk) {
  Node one(options_), other(options_);
  ASSERT_TRUE(one.loop.put(1, 1, 1, kBytes).ok());
  answer("SET", "-OOM full\r\n");
  EXPECT_FALSE(other.loop.put(1, 2, 1, kBytes).ok());
  EXPECT_TRUE(other.loop.flush().ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(one.loop.get(1, 1, kBytes).to_string(), "ok");
  EXPECT_EQ(server_.keys().size(), 2U);
}

// covers F-176
TEST_F(RemoteGarbageTest, PartsOfAFailedPutAreRemoved) {
  Node node(options_);
  ASSERT_TRUE(node.loop.put(1, 1, 1, kBytes).ok());
  const std::string record = record_key("larder", key_of(2));
  std::atomic<int> parts = 0;
  const HookScope hooked(
      server_, [&, record](const FakeServer::Words& words) -> std::optional<std::string> {
        parts += words[0] == "SET" && words[1] != record;
        // never answered
        return words[0] == "SET" && words[1] == record ? std::optional<std::string>("")
                                                       : std::nullopt;
      });
  EXPECT_EQ(node.loop.ended(node.put(2, 1, 100)).code(), Code::kDeadlineExceeded);
  const tiers::Ticket cut_off = node.put(2, 2);
  EXPECT_FALSE(node.loop.ended(cut_off).ok());
  EXPECT_GT(parts, 0) << "they may be gone already";
  server_.set_hook({});
  EXPECT_TRUE(eventually([&] { return server_.keys().size() == 2; }));
  EXPECT_TRUE(node.loop.get(1, 1, kBytes).ok());
}

// covers F-179
TEST_F(RemoteGarbageTest, ForbiddenDropAffectsNoOtherNamespace) {
  const auto told = std::make_shared<Listener>();
  options_.residents = told;
  Node node(options_);
  ASSERT_TRUE(node.loop.put(1, 1, 1, kBytes).ok() && node.loop.put(2, 1, 2, kBytes).ok());
  EXPECT_EQ(told->there().size(), 2U);
  std::atomic<int> scans = 0;
  const HookScope hooked(server_,
                         [&](const FakeServer::Words& words) -> std::optional<std::string> {
                           if (words[0] != "SCAN") return std::nullopt;
                           ++scans;
                           return "-NOPERM this user\r\n";
                         });
  ASSERT_TRUE(eventually([&] { return server_.connections == options_.connections; }))
      << "the last may come after the puts";
  EXPECT_EQ(node.loop.drop(1).code(), Code::kPermissionDenied);
  EXPECT_EQ(told->there().size(), 1U) << "a reader of the residents need not wait for the server";
  for (const std::uint64_t end = clock_.now_ns() + 1'000'000'000; clock_.now_ns() < end;)
    ASSERT_TRUE(node.loop.get(2, 2, kBytes).ok() && node.loop.put(3, scans + 1, 2, kBytes).ok())
        << node.tier->state().reason;
  EXPECT_EQ(server_.connections, options_.connections);
  EXPECT_LE(scans, 6) << "the wait doubles";
  EXPECT_THAT(node.loop.put(1, 1, 1, kBytes).text(), HasSubstr("NOPERM"));
  server_.set_hook({});
  EXPECT_TRUE(eventually([&] { return node.loop.put(1, 2, 1, kBytes).ok(); }));
}

TEST_F(RemoteGarbageTest, DropReportsItsChunkCount) {
  Node one(options_), other(options_);
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(one.loop.put(i, 1, i < 3 ? 1 : 2, kBytes).ok());
  tiers::Ticket ticket = other.loop.next();
  ASSERT_TRUE(
      other.tier->drop_namespace(ticket, key_of(0).namespace_id, other.loop.in_ms(5000)).ok());
  EXPECT_EQ(other.loop.done(ticket)->dropped, 3U);
  ticket = other.loop.next();
  ASSERT_TRUE(other.tier->clear(ticket, other.loop.in_ms(5000)).ok());
  EXPECT_EQ(other.loop.done(ticket)->dropped, 2U);
  EXPECT_EQ(other.tier->counters().chunks_dropped, 5U);
}

TEST_F(RemoteGarbageTest, TimeToLiveContinuesFromTheUpperTier) {
  options_.ttl_ms = 1'000'000;
  Node one(options_), other(options_);
  std::mutex mutex;
  std::set<std::string> kept;
  const HookScope hooked(server_,
                         [&](const FakeServer::Words& words) -> std::optional<std::string> {
                           const std::lock_guard lock(mutex);
                           if (words[0] == "SET" && !words[1].ends_with(":probe"))
                             kept.insert(*(words.end() - 2) == "PX" ? words.back() : "no PX");
                           return std::nullopt;
                         });
  const auto now_s = static_cast<std::uint32_t>(::time(nullptr));
  ASSERT_TRUE(one.loop.ended(one.put(1, 1, 5000, now_s - 100)).ok());
  {
    const std::lock_guard lock(mutex);
    EXPECT_THAT(kept, testing::Each(testing::AnyOf("900000", "899000", "898000")));
    EXPECT_FALSE(kept.empty());
  }
  EXPECT_EQ(one.tier->probe(key_of(1)).value_or(tiers::ChunkFacts{}).since_s, now_s - 100);
  EXPECT_EQ(other.loop.probe(std::vector{key_of(1)}), std::vector{true});
  EXPECT_EQ(other.tier->probe(key_of(1)).value_or(tiers::ChunkFacts{}).since_s, now_s - 100);
  Slot slot(protocol::slot_bytes(kBytes, kBytes));
  const tiers::Ticket get = other.loop.next();
  ASSERT_TRUE(other.tier->get(get, key_of(1), slot.span(), other.loop.in_ms(5000)).ok());
  EXPECT_EQ(other.loop.done(get)->facts.since_s, now_s - 100);
  ASSERT_TRUE(one.loop.put(2, 1, 1, kBytes).ok());
  EXPECT_GE(one.tier->probe(key_of(2)).value_or(tiers::ChunkFacts{}).since_s, now_s)
      << "from now on";
  EXPECT_EQ(one.loop.ended(one.put(3, 1, 5000, now_s - 1001)).code(), Code::kNotFound);
  EXPECT_EQ(server_.keys().size(), 4U) << "an ended put is not stored";
}

// covers F-197
TEST_F(RemoteGarbageTest, TooLongPartIsAMissAndRemoved) {
  Node node(test::patient(options_));
  ASSERT_TRUE(node.loop.put(1, 1, 1, kBytes).ok() && node.loop.put(2, 1, 1, kBytes).ok());
  const std::string part = server_.part_of(record_key("larder", key_of(1)));
  const HookScope hooked(server_,
                         [&, part](const FakeServer::Words& words) -> std::optional<std::string> {
                           if (words[0] != "GET" || words[1] != part) return std::nullopt;
                           return "$3000000\r\n" + std::string(3'000'000, 'x') + "\r\n";
                         });
  ASSERT_TRUE(eventually([&] { return server_.connections == options_.connections; }))
      << "the last may come after the puts";
  EXPECT_EQ(node.loop.get(1, 1, kBytes).code(), Code::kNotFound);
  EXPECT_TRUE(node.loop.get(2, 1, kBytes).ok());
  EXPECT_EQ(server_.connections, options_.connections);
  EXPECT_TRUE(eventually([&] { return server_.keys().size() == 2; }));
}

// When the put is given up: the part is unlinked behind all writes under way. Parts go over several
// connections, and one may be quicker.
TEST_P(RemoteInTransitTest, PartInTransitIsRemoved) {
  options_.answer_ms = 5000;
  Node node(options_);
  ASSERT_TRUE(node.loop.put(9, 1, 1, kBytes).ok());
  ASSERT_TRUE(eventually([&] { return server_.connections >= options_.connections; }));
  const std::string record = record_key("larder", key_of(1));
  std::atomic<bool> unlinked = false;
  const HookScope hooked(server_,
                         [&, record](const FakeServer::Words& words) -> std::optional<std::string> {
                           unlinked = unlinked || words[0] == "UNLINK";
                           if (words[0] != "SET" || !words[1].starts_with(record + ":"))
                             return std::nullopt;
                           for (int i = 0; i < 500 && !unlinked; ++i)
                             std::this_thread::sleep_for(std::chrono::milliseconds(2));
                           return std::nullopt;
                         });
  EXPECT_EQ(node.loop.ended(node.put(1, 1, 100)).code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(eventually([&] { return unlinked.load(); }, 500)) << "before the part is stored";
  EXPECT_TRUE(eventually([&] { return server_.keys().size() == 2; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(server_.keys().size(), 2U) << "of the other chunk";
}

// The record is still sent on, and arrives then: probes and drops of its key meanwhile wait for the
// record.
TEST_F(RemoteGarbageClusterTest, RecordInTransitOfAnAbandonedPutIsAwaited) {
  options_.answer_ms = 5000;
  for (const bool dropped : {false, true}) {
    Node node(options_);
    ASSERT_TRUE(eventually([&] { return node.loop.put(9, 1, 2, kBytes).ok(); }));
    const std::string record = record_key("larder", key_of(1));
    std::atomic<bool> go_on = false;
    std::atomic<int> sent = 0;
    const HookScope hooked(
        server_, [&, record](const FakeServer::Words& words) -> std::optional<std::string> {
          if (words[0] != "SET" || words[1] != record || ++sent != 1) return std::nullopt;
          for (int i = 0; i < 1000 && !go_on; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
          return "-TRYAGAIN later\r\n";
        });
    EXPECT_EQ(node.loop.ended(node.put(1, 1, 200)).code(), Code::kDeadlineExceeded);
    const tiers::Ticket drop = node.loop.next();
    if (dropped) {
      ASSERT_TRUE(
          node.tier->drop_namespace(drop, key_of(1).namespace_id, node.loop.in_ms(5000)).ok());
    }
    // until all commands that do not wait are on their way
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    go_on = true;
    ASSERT_TRUE(eventually([&] { return sent == 2; }));
    if (dropped) {
      EXPECT_TRUE(node.loop.ended(drop).ok());
    }
    const std::size_t left = dropped ? 2 : 4;  // of the other namespace a record and a part
    EXPECT_TRUE(eventually([&] { return server_.keys().size() == left; })) << server_.keys().size();
    EXPECT_EQ(node.loop.get(1, 1, kBytes).ok(), !dropped);
    server_.set_hook({});
    EXPECT_TRUE(node.loop.clear().ok());
  }
}

// covers F-180
TEST_F(RemoteGarbageTest, HandshakeErrorIsNotTakenForAnOldServer) {
  struct Case {
    const char *error, *reason;
  };
  for (const Case& one : {Case{"DENIED Redis is running in protected mode", "protected mode"},
                          Case{"ERR max number of clients reached", "maxclients"},
                          Case{"ERR unknown command `HELLO`", "Redis 6.2"},
                          Case{"ERR out of luck", "answered with an error"}}) {
    const HookScope hooked(
        server_, [&](const FakeServer::Words& words) -> std::optional<std::string> {
          return words[0] == "HELLO" ? std::optional("-" + std::string(one.error) + "\r\n")
                                     : std::nullopt;
        });
    Node node(options_);
    EXPECT_TRUE(eventually([&] { return node.tier->state().degraded(); }));
    EXPECT_THAT(node.tier->state().reason, HasSubstr(one.reason));
  }
}

TEST(RemoteEngineTest, OutageCausesFewLoopTurns) {
  base::MonotonicClock clock;
  auto server = std::make_unique<FakeServer>();
  RemoteOptions options;
  options.unix_path = server->socket();
  options.answer_ms = options.greet_ms = 400;
  KnownChunks known(100, nullptr);
  RemoteEngine engine(clock, options, known);
  ASSERT_TRUE(engine.start().ok());
  const auto turns = [&](std::uint64_t ms) {
    int count = 0;
    for (const std::uint64_t end = clock.now_ns() + ms * 1'000'000; clock.now_ns() < end; ++count)
      engine.turn(std::min<std::uint64_t>(engine.next_turn_ns(), 50'000'000));
    return count;
  };
  server->set_hook([](const FakeServer::Words& words) -> std::optional<std::string> {
    return words[0] == "SET" ? std::optional<std::string>("-MISCONF\r\n") : std::nullopt;
  });
  turns(200);
  ASSERT_FALSE(engine.state().takes_puts);
  server->mute = true;  // a probe is asked, and not answered
  EXPECT_LT(turns(300), 300);
  server.reset();
  turns(100);
  EXPECT_LT(turns(500), 300);
}

}  // namespace
}  // namespace larder::remote::testing_support

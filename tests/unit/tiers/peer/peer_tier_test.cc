// The half that asks, over the loopback: what other larderd have, peers that stop, die, lie, and
// this larderd among its members.
#include <gmock/gmock.h>

#include <atomic>
#include <chrono>

#include "tests/unit/tiers/peer/fake_peer.h"
#include "tests/unit/tiers/peer/peer_fixture.h"

namespace larder::peer::testing_support {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using test::eventually;
using testing::HasSubstr;
using tiers::testing_support::key_of;
using tiers::testing_support::kPayloadBytes;
using tiers::testing_support::kPieceBytes;

class PeerTierTest : public testing::Test {
 protected:
  // A reply to LOOK by which all keys are there, of the usual size.
  static std::string all_there(const Request& look, std::uint64_t payload = kPayloadBytes) {
    return look_reply(std::vector<std::optional<tiers::ChunkFacts>>(
        look.keys.size(), tiers::ChunkFacts{1, payload, kPieceBytes, 7, 0}));
  }
  // The result of a get, and its duration.
  static std::pair<Status, milliseconds> timed_get(Asker& asker, std::uint64_t number) {
    const auto from = steady_clock::now();
    const Status status = asker.loop->get(number);
    return {status, std::chrono::duration_cast<milliseconds>(steady_clock::now() - from)};
  }

  base::MonotonicClock clock_;
};

TEST_F(PeerTierTest, ChunksOfAPeerAreFoundAndRead) {
  Holder holder(clock_);
  for (std::uint64_t n = 1; n <= 8; ++n) holder.put(n);
  holder.put(9, 1, 12 << 20);  // three parts
  Asker asker(clock_, client_options({holder.endpoint()}));
  ASSERT_TRUE(asker.reaches(1));
  EXPECT_EQ(asker.probe(1, 10),
            (std::vector<bool>{true, true, true, true, true, true, true, true, true, false}));
  EXPECT_EQ(asker.tier->probe(key_of(3))->payload_bytes, kPayloadBytes);
  EXPECT_FALSE(asker.tier->probe(key_of(10)).has_value());
  for (std::uint64_t n = 1; n <= 8; ++n) EXPECT_TRUE(asker.loop->get(n).ok()) << n;
  EXPECT_TRUE(asker.loop->get(9, 1, 12 << 20).ok());
  EXPECT_EQ(asker.loop->get(10).code(), Code::kNotFound);
  EXPECT_EQ(asker.tier->counters().gets, 9U);
  EXPECT_TRUE(eventually([&] { return holder.memory->held() == 0; }, 1500, 2))
      << "given back before its time";
}

// The budget once paid for whole pieces: a slow rate made pauses, and the reader gave up.
TEST_F(PeerTierTest, SlowRateDelaysReadsWithoutMisses) {
  ServerOptions options;
  options.bytes_per_s = 1 << 20;
  Holder holder(clock_, options);
  holder.put(1, 1, 3 << 20);
  Asker asker(clock_, client_options({holder.endpoint()}));
  ASSERT_TRUE(asker.reaches(1));
  EXPECT_TRUE(asker.loop->get(1, 1, 3 << 20).ok());
}

// A member ends the hold of a sent chunk without DONE. An open DONE would make the member late for
// the next probe.
TEST_F(PeerTierTest, OnlyAFailedReadSaysDone) {
  std::atomic<bool> whole = true;
  FakePeer peer([&](const Request& request) {
    if (request.kind == Request::Kind::kLook) return all_there(request);
    return whole ? "$" + std::to_string(request.length) + "\r\n" +
                       std::string(request.length, 'x') + "\r\n"
                 : std::string("$-1\r\n");
  });
  Asker asker(clock_, client_options({peer.endpoint()}));
  ASSERT_TRUE(asker.reaches(1));
  ASSERT_TRUE(asker.loop->get(1).code() != Code::kNotFound);
  asker.probe(2, 2);
  EXPECT_EQ(peer.asked(Request::Kind::kDone), 0U);
  whole = false;
  EXPECT_EQ(asker.loop->get(1).code(), Code::kNotFound);
  EXPECT_TRUE(eventually([&] { return peer.asked(Request::Kind::kDone) == 1; }, 10'000, 1));
}

TEST_F(PeerTierTest, GetWithoutPriorProbeFindsTheChunk) {
  Holder holder(clock_);
  holder.put(1);
  Asker asker(clock_, client_options({holder.endpoint()}));
  ASSERT_TRUE(asker.reaches(1));
  EXPECT_TRUE(asker.loop->get(1).ok());
}

TEST_F(PeerTierTest, PromptIsReadFromAllPeersHoldingIt) {
  Holder one(clock_), two(clock_);
  for (std::uint64_t n = 1; n <= 8; ++n) {
    one.put(n);
    two.put(n);
  }
  one.put(9);
  two.put(10);
  Asker asker(clock_, client_options({one.endpoint(), two.endpoint()}));
  ASSERT_TRUE(asker.reaches(2));
  EXPECT_EQ(asker.probe(1, 10), std::vector<bool>(10, true));
  for (std::uint64_t n = 1; n <= 10; ++n) EXPECT_TRUE(asker.loop->get(n).ok()) << n;
  EXPECT_TRUE(eventually(
      [&] { return one.server->counters().gets + two.server->counters().gets == 10; }, 5000));
  EXPECT_EQ(one.server->counters().gets, 5U);
  EXPECT_TRUE(eventually([&] { return one.memory->held() + two.memory->held() == 0; }, 1500, 2));
}

// covers F-274
TEST_F(PeerTierTest, OwnInstanceAmongMembersIsSkipped) {
  const Instance self = make_instance("chat", 1);
  ServerOptions options;
  options.self = self;
  Holder holder(clock_, options);
  holder.put(1);
  ClientOptions asking = client_options({holder.endpoint()});
  asking.self = self;
  Asker asker(clock_, asking);
  EXPECT_TRUE(eventually([&] { return asker.tier->state().servers == 0; }, 5000, 2));
  EXPECT_EQ(asker.probe(1, 1), std::vector<bool>{false});
  EXPECT_FALSE(asker.tier->state().degraded()) << "a pool of one is well";
  EXPECT_EQ(holder.server->counters().probes, 0U);
}

// The address once stayed out for ever.
// covers F-274
TEST_F(PeerTierTest, OwnAddressMayBecomeAPeer) {
  ServerOptions options;
  options.self = make_instance("chat", 1);
  auto own = std::make_unique<Holder>(clock_, options);
  ClientOptions asking = client_options({own->endpoint()});
  asking.self = options.self;
  asking.self_ms = 100;
  Asker asker(clock_, asking);
  ASSERT_TRUE(eventually([&] { return asker.tier->state().servers == 0; }, 5000, 2));
  EXPECT_TRUE(eventually([&] { return own->server->counters().accepted >= 4; }, 5000, 2))
      << "it is asked for its name again";
  EXPECT_EQ(asker.tier->state().servers, 0U);
  options.listen = own->endpoint();
  options.self = make_instance("chat", 1);
  own.reset();
  Holder another(clock_, options);
  another.put(1);
  ASSERT_TRUE(asker.reaches(1));
  EXPECT_TRUE(asker.loop->get(1).ok());
}

// covers F-272
TEST_F(PeerTierTest, PeerOfAnotherPoolIsIgnored) {
  ServerOptions options;
  options.self = make_instance("other", 1);
  Holder holder(clock_, options);
  holder.put(1);
  Asker asker(clock_, client_options({holder.endpoint()}));
  ASSERT_TRUE(eventually([&] { return asker.tier->state().degraded(); }, 5000, 2));
  EXPECT_THAT(asker.tier->state().reason, HasSubstr("another pool"));
  EXPECT_EQ(asker.loop->get(1).code(), Code::kUnavailable);
}

// covers F-265
TEST_F(PeerTierTest, KilledPeerCostsMissesAndIsUsedAgain) {
  auto holder = std::make_unique<Holder>(clock_);
  ServerOptions options;
  options.listen = holder->endpoint();
  holder->put(1);
  Asker asker(clock_, client_options({holder->endpoint()}));
  ASSERT_TRUE(asker.reaches(1));
  ASSERT_EQ(asker.probe(1, 1), std::vector<bool>{true});
  holder.reset();
  const auto [status, took] = timed_get(asker, 1);
  EXPECT_FALSE(status.ok());
  EXPECT_LT(took, milliseconds(500));
  ASSERT_TRUE(eventually([&] { return asker.tier->state().degraded(); }, 5000, 2));
  Holder again(clock_, options);  // another life, without the chunk
  ASSERT_TRUE(asker.reaches(1));
  EXPECT_EQ(asker.probe(1, 1), std::vector<bool>{false});
  again.put(1, 2);
  EXPECT_TRUE(asker.loop->get(1).ok());
}

// covers F-266
TEST_F(PeerTierTest, StoppedPeerCostsOneDeadline) {
  Holder still(clock_), well(clock_);
  still.put(1);
  well.put(2);
  ClientOptions options = client_options({still.endpoint(), well.endpoint()});
  options.probe_ms = 50;
  Asker asker(clock_, options);
  ASSERT_TRUE(asker.reaches(2));
  still.memory->stand_still();
  const auto from = steady_clock::now();
  EXPECT_EQ(asker.probe(1, 2), (std::vector<bool>{false, true}));
  EXPECT_LT(steady_clock::now() - from, milliseconds(300)) << "50 ms, on a busy machine";
  milliseconds quickest{1000};
  for (int i = 0; i < 5; ++i) {
    const auto begun = steady_clock::now();
    EXPECT_EQ(asker.probe(1, 2), (std::vector<bool>{false, true}));
    quickest =
        std::min(quickest, std::chrono::duration_cast<milliseconds>(steady_clock::now() - begun));
  }
  EXPECT_LT(quickest, milliseconds(45)) << "nobody waits for it again";
  still.memory->go_on();
  EXPECT_TRUE(eventually(
      [&] {
        return asker.probe(1, 2) == (std::vector<bool>{true, true});
      },
      10'000, 10));
}

// covers F-266
TEST_F(PeerTierTest, StalledReadEndsAtItsDeadline) {
  FakePeer peer([](const Request& request) {
    if (request.kind == Request::Kind::kLook) return all_there(request);
    return "$" + std::to_string(request.length) + "\r\n" + std::string(request.length / 2, 'x');
  });
  Asker asker(clock_, client_options({peer.endpoint()}));
  ASSERT_TRUE(asker.reaches(1));
  const auto [status, took] = timed_get(asker, 1);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_GE(took, milliseconds(450));
  EXPECT_LT(took, milliseconds(1500)) << "0.5 s, on a busy machine";
}

// covers F-275
TEST_F(PeerTierTest, StalledReadBlocksNoReadOfAnotherPeer) {
  FakePeer still([](const Request& request) {
    if (request.kind != Request::Kind::kLook) return std::string();
    std::vector<std::optional<tiers::ChunkFacts>> some;
    for (const tiers::ChunkKey& key : request.keys) {
      some.emplace_back();
      if (key.hash.hi < 50) some.back() = tiers::ChunkFacts{1, kPayloadBytes, kPieceBytes, 7, 0};
    }
    return look_reply(some);
  });
  Holder well(clock_);
  well.put(100);
  ClientOptions options = client_options({still.endpoint(), well.endpoint()});
  options.read_bytes_in_flight = kPayloadBytes;
  Asker asker(clock_, options);
  ASSERT_TRUE(asker.reaches(2));
  ASSERT_EQ(asker.probe(1, 3), (std::vector<bool>{true, true, true}));
  ASSERT_EQ(asker.probe(100, 100), std::vector<bool>{true});
  EXPECT_NE(asker.tier->device(key_of(1)), asker.tier->device(key_of(100)));
  std::vector<tiers::testing_support::Slot> slots;
  std::vector<tiers::Ticket> tickets;
  for (std::uint64_t n = 1; n <= 3; ++n) {
    slots.emplace_back(protocol::slot_bytes(kPayloadBytes, kPieceBytes));
    tickets.push_back(asker.loop->next());
    ASSERT_TRUE(
        asker.tier->get(tickets.back(), key_of(n), slots.back().span(), asker.loop->in_ms(5000))
            .ok());
  }
  const auto [status, took] = timed_get(asker, 100);
  EXPECT_TRUE(status.ok()) << status.to_string();
  EXPECT_LT(took, milliseconds(400)) << "the other peer is given up after 500 ms";
  for (const tiers::Ticket ticket : tickets) EXPECT_FALSE(asker.loop->ended(ticket).ok());
}

// covers F-265
TEST_F(PeerTierTest, ConnectionClosedDuringAReadIsAnImmediateMiss) {
  FakePeer peer([](const Request& request) {
    return request.kind == Request::Kind::kLook ? all_there(request) : std::string("close");
  });
  Asker asker(clock_, client_options({peer.endpoint()}));
  ASSERT_TRUE(asker.reaches(1));
  const auto [status, took] = timed_get(asker, 1);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_LT(took, milliseconds(400));
}

struct Lie {
  const char* name;
  std::function<std::string(const Request&)> tell;
};
void PrintTo(const Lie& lie, std::ostream* out) {
  *out << lie.name;
}

class LyingPeerTest : public testing::TestWithParam<Lie> {};

// covers F-271
TEST_P(LyingPeerTest, IsAMissAndWritesOnlyTheSlot) {
  base::MonotonicClock clock;
  FakePeer peer([](const Request& request) { return GetParam().tell(request); });
  ClientOptions options = client_options({peer.endpoint()});
  options.progress_ms = 200;
  Asker asker(clock, options);
  ASSERT_TRUE(asker.reaches(1));
  const std::uint64_t bytes = protocol::slot_bytes(kPayloadBytes, kPieceBytes);
  tiers::testing_support::Slot memory(bytes + 8192);  // a page before and behind the slot
  for (int i = 0; i < 3; ++i) {
    const tiers::Ticket ticket = asker.loop->next();
    if (!asker.tier
             ->get(ticket, key_of(1), memory.span().subspan(4096, bytes), asker.loop->in_ms(5000))
             .ok())
      continue;
    EXPECT_FALSE(asker.loop->ended(ticket).ok());
  }
  for (std::size_t at = 0; at < 4096; ++at) {
    ASSERT_EQ(memory.span()[at], std::byte{0xee});
    ASSERT_EQ(memory.span()[4096 + bytes + at], std::byte{0xee});
  }
}

std::string there(const Request& look, std::uint64_t payload, std::uint64_t piece) {
  return look_reply(std::vector<std::optional<tiers::ChunkFacts>>(
      look.keys.size(), tiers::ChunkFacts{1, payload, piece, 7, 0}));
}
bool is_look(const Request& request) {
  return request.kind == Request::Kind::kLook;
}

INSTANTIATE_TEST_SUITE_P(
    Lies, LyingPeerTest,
    testing::Values(
        Lie{"nil",
            [](const Request& r) {
              return is_look(r) ? there(r, kPayloadBytes, kPieceBytes) : "$-1\r\n";
            }},
        Lie{"short_part",
            [](const Request& r) {
              return is_look(r) ? there(r, kPayloadBytes, kPieceBytes) : "$3\r\nabc\r\n";
            }},
        Lie{"long_part",
            [](const Request& r) {
              return is_look(r) ? there(r, kPayloadBytes, kPieceBytes)
                                : "$" + std::to_string(r.length + 1) + "\r\n" +
                                      std::string(r.length + 1, 'x') + "\r\n";
            }},
        Lie{"endless_part",
            [](const Request& r) {
              return is_look(r) ? there(r, kPayloadBytes, kPieceBytes) : "$99999999999\r\n";
            }},
        Lie{"error",
            [](const Request& r) {
              return is_look(r) ? there(r, kPayloadBytes, kPieceBytes) : "-ERR no\r\n";
            }},
        Lie{"two_answers",
            [](const Request& r) {
              return is_look(r) ? there(r, kPayloadBytes, kPieceBytes) : "$-1\r\n$-1\r\n$-1\r\n";
            }},
        Lie{"another_type",
            [](const Request& r) {
              return is_look(r) ? there(r, kPayloadBytes, kPieceBytes) : ":1\r\n";
            }},
        Lie{"too_large",
            [](const Request& r) {
              return is_look(r) ? there(r, 64 << 20, kPieceBytes) : "$-1\r\n";
            }},
        Lie{"impossible_size",
            [](const Request& r) { return is_look(r) ? there(r, 5, 4096) : "$-1\r\n"; }},
        Lie{"look_garbage", [](const Request&) { return std::string("$3\r\nabc\r\n"); }},
        Lie{"look_error", [](const Request&) { return std::string("-ERR no\r\n"); }},
        Lie{"look_array", [](const Request&) { return std::string("*1\r\n$1\r\na\r\n"); }},
        Lie{"no_resp", [](const Request&) { return std::string("HTTP/1.1 200 OK\r\n\r\n"); }}),
    [](const auto& lie) { return std::string(lie.param.name); });

TEST_F(PeerTierTest, DropForgetsOffersOfPeers) {
  Holder holder(clock_);
  holder.put(1);
  Asker asker(clock_, client_options({holder.endpoint()}));
  ASSERT_TRUE(asker.reaches(1));
  ASSERT_EQ(asker.probe(1, 1), std::vector<bool>{true});
  EXPECT_TRUE(asker.loop->drop(1).ok());
  EXPECT_FALSE(asker.tier->probe(key_of(1)).has_value());
  ASSERT_EQ(asker.probe(1, 1), std::vector<bool>{true});
  EXPECT_TRUE(asker.tier->evict(key_of(1)).ok());
  EXPECT_FALSE(asker.tier->probe(key_of(1)).has_value());
}

// covers F-276
TEST_F(PeerTierTest, DropForgetsOffersAtOnce) {
  Holder holder(clock_);
  holder.put(1);
  ClientOptions options = client_options({holder.endpoint()});
  options.accepted_operations = 1;
  Asker asker(clock_, options);
  ASSERT_TRUE(asker.reaches(1));
  for (const bool all : {false, true}) {
    ASSERT_EQ(asker.probe(1, 1), std::vector<bool>{true});
    holder.memory->stand_still();
    const tiers::ChunkKey other = key_of(2);
    ASSERT_TRUE(asker.tier->probe(asker.loop->next(), {&other, 1}, asker.loop->in_ms(5000)).ok());
    const Status dropped =
        all ? asker.tier->clear(asker.loop->next(), asker.loop->in_ms(1000))
            : asker.tier->drop_namespace(asker.loop->next(), key_of(1).namespace_id,
                                         asker.loop->in_ms(1000));
    EXPECT_EQ(dropped.code(), Code::kResourceExhausted) << "there is no room for an answer";
    EXPECT_FALSE(asker.tier->probe(key_of(1)).has_value());
    holder.memory->go_on();
    ASSERT_TRUE(eventually([&] { return asker.probe(1, 1) == std::vector<bool>{true}; }, 5000, 5));
  }
}

TEST_F(PeerTierTest, MemberStartedLaterIsUsed) {
  std::uint16_t port = 0;
  {
    Holder holder(clock_);
    port = holder.endpoint().port;
  }
  Asker asker(clock_, client_options({{"127.0.0.1", port}}));
  ASSERT_TRUE(eventually([&] { return asker.tier->state().degraded(); }, 5000, 2));
  EXPECT_THAT(asker.tier->state().reason, HasSubstr("1 of 1 peers cannot be reached: 127.0.0.1:"));
  ServerOptions options;
  options.listen.port = port;
  Holder holder(clock_, options);
  holder.put(1);
  ASSERT_TRUE(asker.reaches(1));
  EXPECT_TRUE(asker.loop->get(1).ok());
}

TEST_F(PeerTierTest, NoMorePeersAreAskedThanTheLimit) {
  Holder holders[] = {Holder(clock_), Holder(clock_), Holder(clock_)};
  std::vector<net::Endpoint> members;
  for (std::uint64_t i = 0; i < 3; ++i) {
    holders[i].put(i + 1);
    members.push_back(holders[i].endpoint());
  }
  ClientOptions options = client_options(members);
  options.fanout = 1;
  Asker asker(clock_, options);
  ASSERT_TRUE(asker.reaches(2)) << "one more, since one may be this larderd";
  EXPECT_EQ(std::ranges::count(asker.probe(1, 3), true), 1);
}

TEST_F(PeerTierTest, EachDnsAddressIsAMember) {
  Holder holder(clock_);
  holder.put(1);
  ClientOptions options = client_options({{"localhost", holder.endpoint().port}});
  options.by_dns = true;
  Asker asker(clock_, options);
  EXPECT_TRUE(eventually([&] { return asker.tier->state().servers_reachable == 1; }, 20'000, 5));
  EXPECT_TRUE(asker.loop->get(1).ok());
}

}  // namespace
}  // namespace larder::peer::testing_support

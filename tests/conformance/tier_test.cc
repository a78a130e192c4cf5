// The promises of every tier (sidecar/tiers/tier.h), in any place for chunks.
#include <gtest/gtest.h>
#include <poll.h>

#include <set>

#include "tests/conformance/tier_chunks.h"
#include "tests/conformance/tier_under_test.h"

namespace larder::tiers::testing_support {
namespace {

class TierTest : public testing::TestWithParam<TierKind> {
 protected:
  void SetUp() override {
    box_ = GetParam().make();
    if (box_ == nullptr) GTEST_SKIP() << "the server is not on this machine: make deps";
    reopen();
  }
  void reopen() {
    loop_.reset();
    tier_.reset();
    tier_ = box_->open();
    ASSERT_NE(tier_, nullptr);
    loop_.emplace(*tier_, box_->clock);
  }

  std::unique_ptr<TierBox> box_;
  std::unique_ptr<Tier> tier_;
  std::optional<Loop> loop_;
};

TEST_P(TierTest, PutChunkIsReadBack) {
  for (const std::uint64_t payload : {1UL, 4096UL, 4097UL, 100'000UL, kPayloadBytes, 3UL << 20}) {
    const std::uint64_t rounded =
        payload > kPieceBytes ? payload / kPieceBytes * kPieceBytes : payload;
    ASSERT_TRUE(loop_->put(payload, 7, 1, rounded).ok()) << payload;
    const std::optional<ChunkFacts> facts = tier_->probe(key_of(payload));
    ASSERT_TRUE(facts.has_value()) << payload;
    EXPECT_EQ(facts->generation, 7U);
    EXPECT_EQ(facts->payload_bytes, rounded);
    EXPECT_EQ(loop_->get(payload, 1, rounded).to_string(), "ok") << payload;
  }
}

TEST_P(TierTest, KeyDifferingInOneFieldIsAMiss) {
  ASSERT_TRUE(loop_->put(1).ok());
  std::vector<ChunkKey> others(5, key_of(1));
  others[0].namespace_id.hi ^= 1;
  others[1].hash.lo ^= 1;
  others[2].hash.hi ^= 1;
  others[3].shard ^= 1;
  others[4].group ^= 1;
  Slot slot(protocol::slot_bytes(kPayloadBytes, kPieceBytes));
  for (const ChunkKey& key : others) {
    EXPECT_FALSE(tier_->probe(key).has_value());
    const Ticket ticket = loop_->next();
    ASSERT_TRUE(tier_->get(ticket, key, slot.span(), loop_->in_ms(5000)).ok());
    EXPECT_EQ(loop_->ended(ticket).code(), Code::kNotFound);
  }
}

TEST_P(TierTest, TheNewestPutOfAKeyWins) {
  for (std::uint64_t generation = 1; generation <= 5; ++generation)
    ASSERT_TRUE(loop_->put(1, generation).ok());
  EXPECT_EQ(tier_->probe(key_of(1))->generation, 5U);
  EXPECT_TRUE(loop_->get(1).ok());
  EXPECT_EQ(tier_->counters().chunks, 1U);
}

TEST_P(TierTest, TheNewestPutOfAKeyWinsAlsoWhereItEndsFirst) {
  Slot large(protocol::slot_bytes(3 << 20, kPieceBytes)), small(protocol::slot_bytes(4096, 4096));
  for (std::uint64_t number = 0; number < 8; ++number) {
    const ChunkFacts older = fill(large.span(), number, 1, 3 << 20),
                     newer = fill(small.span(), number, 2, 4096, 4096);
    const Ticket first = loop_->next(), second = loop_->next();
    ASSERT_TRUE(tier_->put(first, key_of(number), older, large.span(), loop_->in_ms(20'000)).ok());
    ASSERT_TRUE(tier_->put(second, key_of(number), newer, small.span(), loop_->in_ms(20'000)).ok());
    ASSERT_TRUE(loop_->ended(first).ok() && loop_->ended(second).ok());
    EXPECT_EQ(tier_->probe(key_of(number)).value_or(ChunkFacts{}).generation, 2U) << number;
  }
}

TEST_P(TierTest, EveryOperationIsAnsweredExactlyOnce) {
  constexpr std::uint64_t kOperations = 60;
  Slot slot(protocol::slot_bytes(kPayloadBytes, kPieceBytes));
  const ChunkFacts facts = fill(slot.span(), 1, 1);
  std::vector<std::unique_ptr<Slot>> targets;
  std::set<Ticket> accepted;
  for (std::uint64_t i = 0; i < kOperations; ++i) {
    const Ticket ticket = loop_->next();
    Status status;
    switch (i % 5) {
      case 0:
      case 1:
        status = tier_->put(ticket, key_of(i), facts, slot.span(), loop_->in_ms(20'000));
        break;
      case 2:
        targets.push_back(std::make_unique<Slot>(slot.span().size()));
        status = tier_->get(ticket, key_of(i - 2), targets.back()->span(), loop_->in_ms(20'000));
        break;
      case 3: status = tier_->flush(ticket, loop_->in_ms(20'000)); break;
      default: status = tier_->drop_namespace(ticket, {99, 99}, loop_->in_ms(20'000)); break;
    }
    if (status.ok()) accepted.insert(ticket);
    loop_->collect(0);
  }
  for (const Ticket ticket : accepted) ASSERT_TRUE(loop_->done(ticket).has_value());
  EXPECT_TRUE(tier_->close(5000));
  loop_->collect(50);
  for (Ticket ticket = 1; ticket <= kOperations; ++ticket)
    EXPECT_EQ(loop_->of(ticket).size(), accepted.count(ticket)) << "ticket " << ticket;
}

TEST_P(TierTest, DescriptorIsReadableOnlyWithMessages) {
  pollfd waiting{tier_->message_fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 0);
  const Ticket ticket = loop_->next();
  ASSERT_TRUE(tier_->flush(ticket, loop_->in_ms(5000)).ok());
  EXPECT_EQ(::poll(&waiting, 1, 5000), 1);
  ASSERT_TRUE(loop_->done(ticket).has_value());
  EXPECT_EQ(::poll(&waiting, 1, 0), 0);
}

TEST_P(TierTest, ImpossibleArgumentsAreRefusedAndCounted) {
  Slot slot(protocol::slot_bytes(kPayloadBytes, kPieceBytes));
  const ChunkFacts facts = fill(slot.span(), 1, 1);
  ChunkFacts wrong = facts;
  wrong.piece_bytes = 0;
  EXPECT_EQ(tier_->put(1, key_of(1), wrong, slot.span(), loop_->in_ms(1000)).code(),
            Code::kInvalidArgument);
  wrong = facts;
  wrong.payload_bytes += kPieceBytes;
  EXPECT_EQ(tier_->put(2, key_of(1), wrong, slot.span(), loop_->in_ms(1000)).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(tier_->get(3, key_of(1), {}, loop_->in_ms(1000)).code(), Code::kInvalidArgument);
  EXPECT_EQ(tier_->counters().refused, 3U);
  EXPECT_FALSE(tier_->probe(key_of(1)).has_value());
}

TEST_P(TierTest, ChunkOverTheTierLimitIsRefused) {
  const std::uint64_t payload = box_->most_slot_bytes() + (1 << 20);
  const std::uint64_t rounded = payload / kPieceBytes * kPieceBytes;
  EXPECT_EQ(loop_->put(1, 1, 1, rounded).code(), Code::kOutOfRange);
}

TEST_P(TierTest, TooSmallSlotFailsOnlyItsGet) {
  ASSERT_TRUE(loop_->put(1).ok());
  Slot slot(8192);
  const Ticket ticket = loop_->next();
  ASSERT_TRUE(tier_->get(ticket, key_of(1), slot.span(), loop_->in_ms(5000)).ok());
  EXPECT_EQ(loop_->ended(ticket).code(), Code::kInvalidArgument);
  EXPECT_TRUE(loop_->get(1).ok());
}

TEST_P(TierTest, BytesInFlightAreBounded) {
  Slot slot(protocol::slot_bytes(kPayloadBytes, kPieceBytes));
  const ChunkFacts facts = fill(slot.span(), 1, 1);
  std::uint64_t accepted = 0;
  Status status;
  std::vector<Ticket> tickets;
  for (std::uint64_t i = 0; i < 10'000 && status.ok(); ++i) {
    tickets.push_back(loop_->next());
    status = tier_->put(tickets.back(), key_of(i), facts, slot.span(), loop_->in_ms(20'000));
    accepted += status.ok() ? slot.span().size() : 0;
    EXPECT_LE(tier_->counters().in_flight_bytes, box_->accepted_bytes());
    if (accepted > 2 * box_->capacity_chunks_of_1_mib() * slot.span().size())
      break;  // a fast tier: no operation is in flight for long
  }
  if (!status.ok()) {
    EXPECT_EQ(status.code(), Code::kResourceExhausted);
    tickets.pop_back();
  }
  for (const Ticket ticket : tickets) ASSERT_TRUE(loop_->done(ticket).has_value());
  EXPECT_EQ(tier_->counters().in_flight_bytes, 0U);
  EXPECT_TRUE(loop_->put(77'777).ok()) << "a refused put is taken later";
}

// covers F-199
TEST_P(TierTest, FullTierEvictsTheOldest) {
  const std::uint64_t count = 3 * box_->capacity_chunks_of_1_mib();
  for (std::uint64_t i = 0; i < count; ++i) ASSERT_TRUE(loop_->put(i).ok()) << i;
  std::uint64_t found = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const Status status = loop_->get(i);
    ASSERT_TRUE(status.ok() || status.code() == Code::kNotFound) << status.to_string();
    found += status.ok() ? 1 : 0;
  }
  EXPECT_LE(found, box_->capacity_chunks_of_1_mib());
  EXPECT_GE(found, box_->capacity_chunks_of_1_mib() / 2);
  EXPECT_TRUE(loop_->get(count - 1).ok());
  EXPECT_EQ(loop_->get(0).code(), Code::kNotFound);
  EXPECT_GT(tier_->counters().chunks_evicted, 0U);
}

TEST_P(TierTest, ProbeReportsPresentKeys) {
  for (std::uint64_t i = 0; i < 8; i += 2) ASSERT_TRUE(loop_->put(i).ok());
  std::vector<ChunkKey> keys;
  for (std::uint64_t i = 0; i < kMaxProbeKeys; ++i) keys.push_back(key_of(i));
  const std::vector<bool> there = loop_->probe(keys);
  ASSERT_EQ(there.size(), keys.size());
  for (std::uint64_t i = 0; i < keys.size(); ++i) EXPECT_EQ(there[i], i < 8 && i % 2 == 0) << i;
  EXPECT_TRUE(loop_->drop(1).ok());
  EXPECT_EQ(loop_->probe(std::span(keys).first(8)), std::vector<bool>(8, false));
}

TEST_P(TierTest, ProbeFindsChunksOfPreviousInstance) {
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(loop_->put(i, 9).ok());
  ASSERT_TRUE(loop_->flush().ok());
  reopen();
  const std::vector<ChunkKey> keys{key_of(3), key_of(4), key_of(0)};
  const bool kept = box_->survives_restart();
  EXPECT_EQ(loop_->probe(keys), (std::vector<bool>{kept, false, kept}));
  EXPECT_EQ(tier_->probe(key_of(3)).has_value(), kept);
  if (!box_->probes_tell_facts()) {
    ASSERT_TRUE(loop_->get(3).ok());
  }
  EXPECT_EQ(tier_->probe(key_of(3)).value_or(ChunkFacts{}).generation, kept ? 9U : 0U);
}

TEST_P(TierTest, EmptyOrTooLargeProbeIsRefused) {
  const std::vector<ChunkKey> keys(kMaxProbeKeys + 1, key_of(1));
  EXPECT_EQ(tier_->probe(1, {}, loop_->in_ms(1000)).code(), Code::kInvalidArgument);
  EXPECT_EQ(tier_->probe(2, keys, loop_->in_ms(1000)).code(), Code::kOutOfRange);
  EXPECT_EQ(tier_->counters().refused, 2U);
  EXPECT_TRUE(tier_->close(1000));
  EXPECT_EQ(tier_->probe(3, std::span(keys).first(1), loop_->in_ms(1000)).code(),
            Code::kUnavailable);
}

TEST_P(TierTest, DropTakesEffectAtOnceAndKeepsOtherNamespaces) {
  ASSERT_TRUE(loop_->put(1, 1, 1).ok() && loop_->put(2, 1, 2).ok());
  const Ticket ticket = loop_->next();
  ASSERT_TRUE(tier_->drop_namespace(ticket, {1, ~1ULL}, loop_->in_ms(5000)).ok());
  EXPECT_FALSE(tier_->probe(key_of(1, 1)).has_value()) << "before any message";
  EXPECT_TRUE(loop_->ended(ticket).ok());
  EXPECT_EQ(loop_->get(1, 1).code(), Code::kNotFound);
  EXPECT_TRUE(loop_->get(2, 2).ok());
  ASSERT_TRUE(loop_->put(1, 2, 1).ok()) << "the namespace lives on";
  EXPECT_TRUE(loop_->get(1, 1).ok());
}

TEST_P(TierTest, ClearRemovesAllChunks) {
  for (std::uint64_t space = 1; space <= 3; ++space) ASSERT_TRUE(loop_->put(space, 1, space).ok());
  const Ticket ticket = loop_->next();
  ASSERT_TRUE(tier_->clear(ticket, loop_->in_ms(5000)).ok());
  for (std::uint64_t space = 1; space <= 3; ++space)
    EXPECT_FALSE(tier_->probe(key_of(space, space)).has_value());
  EXPECT_TRUE(loop_->ended(ticket).ok());
  EXPECT_EQ(tier_->counters().chunks, 0U);
  ASSERT_TRUE(loop_->put(1).ok());
  EXPECT_TRUE(loop_->get(1).ok());
}

TEST_P(TierTest, ForgetRemovesOnlyTheGivenGeneration) {
  ASSERT_TRUE(loop_->put(1, 5).ok());
  tier_->forget(key_of(1), 4);
  EXPECT_TRUE(loop_->flush().ok());
  EXPECT_TRUE(loop_->get(1).ok());
  tier_->forget(key_of(1), 5);
  EXPECT_TRUE(loop_->flush().ok());
  EXPECT_EQ(loop_->get(1).code(), Code::kNotFound);
  ASSERT_TRUE(loop_->put(1, 6).ok());
  EXPECT_TRUE(loop_->get(1).ok());
}

TEST_P(TierTest, EvictRemovesUnseenChunkOfAnotherTier) {
  if (!box_->shared()) return;  // no other program writes there
  ASSERT_TRUE(loop_->put(1, 3).ok() && loop_->put(2, 3).ok());
  const std::unique_ptr<Tier> other = box_->open();
  Loop loop(*other, box_->clock);
  EXPECT_TRUE(other->evict(key_of(1)).ok());
  EXPECT_TRUE(loop.flush().ok());
  EXPECT_EQ(loop.get(1).code(), Code::kNotFound);
  EXPECT_EQ(loop_->get(1).code(), Code::kNotFound) << "nobody finds it";
  EXPECT_TRUE(loop_->get(2).ok());
}

TEST_P(TierTest, EvictRemovesEveryGeneration) {
  ASSERT_TRUE(loop_->put(1, 3).ok());
  ASSERT_TRUE(loop_->put(2).ok());
  EXPECT_TRUE(tier_->evict(key_of(1)).ok());
  EXPECT_TRUE(tier_->evict(key_of(9)).ok()) << "it is not there";
  EXPECT_EQ(loop_->get(1).code(), Code::kNotFound);
  EXPECT_TRUE(loop_->get(2).ok());
  ASSERT_TRUE(loop_->put(1, 4).ok());
  EXPECT_TRUE(loop_->get(1).ok());
}

TEST_P(TierTest, ClosedTierRefusesCallsAndDeliversPendingMessages) {
  const Ticket ticket = loop_->next();
  ASSERT_TRUE(tier_->flush(ticket, loop_->in_ms(5000)).ok());
  EXPECT_TRUE(tier_->close(5000));
  EXPECT_TRUE(loop_->done(ticket).has_value());
  EXPECT_EQ(loop_->put(1).code(), Code::kUnavailable);
  EXPECT_EQ(loop_->get(1).code(), Code::kUnavailable);
  EXPECT_EQ(loop_->flush().code(), Code::kUnavailable);
  EXPECT_TRUE(tier_->state().degraded());
}

TEST_P(TierTest, RestartKeepsExactlyTheStoredChunks) {
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(loop_->put(i, 3, i % 2).ok());
  ASSERT_TRUE(loop_->put(3, 4, 1).ok());
  ASSERT_TRUE(loop_->drop(0).ok());
  ASSERT_TRUE(loop_->put(20, 1, 0).ok());
  tier_->forget(key_of(5, 1), 3);
  for (int restart = 0; restart < 3; ++restart) {
    reopen();
    for (std::uint64_t i = 0; i < 10; ++i) {
      const bool there = box_->survives_restart() && i % 2 == 1 && i != 5;
      const Status status = loop_->get(i, i % 2);
      EXPECT_EQ(status.ok(), there) << "chunk " << i << ": " << status.to_string();
    }
    EXPECT_EQ(tier_->probe(key_of(3, 1)).value_or(ChunkFacts{}).generation,
              box_->survives_restart() ? 4U : 0U);
    EXPECT_EQ(loop_->get(20, 0).ok(), box_->survives_restart());
  }
  ASSERT_TRUE(loop_->clear().ok());
  reopen();
  EXPECT_EQ(tier_->counters().chunks, 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Tiers, TierTest,
    testing::Values(TierKind{"memory", make_memory_box},
                    TierKind{"disk_io_uring", [] { return make_disk_box(true, true); }},
                    TierKind{"disk_threads", [] { return make_disk_box(false, true); }},
                    TierKind{"disk_page_cache", [] { return make_disk_box(true, false); }},
                    TierKind{"peer", make_peer_box}, TierKind{"plugin", make_plugin_box},
                    TierKind{"redis", [] { return make_remote_box("redis-server", 2); }},
                    TierKind{"redis_one_connection",
                             [] { return make_remote_box("redis-server", 1); }},
                    TierKind{"valkey", [] { return make_remote_box("valkey-server", 4); }},
                    TierKind{"redis_cluster", [] { return make_cluster_box("redis-server"); }},
                    TierKind{"valkey_cluster", [] { return make_cluster_box("valkey-server"); }}),
    [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace larder::tiers::testing_support

// The chunks that go from memory to the tier below, and when: over a store and a tier whose answers
// the test decides.
#include "sidecar/tiering/tier_writer.h"

#include "tests/unit/store/store_fixture.h"
#include "tests/unit/tiering/scripted_tier.h"

namespace larder::tiering::testing_support {
namespace {

using store::testing_support::status_of;
using store::testing_support::StoreBox;

class TierWriterTest : public testing::Test {
 protected:
  static constexpr std::uint64_t kSlots = 16;  // of which eight are written ahead, and two at once

  TierWriterTest() { begin({}); }
  void begin(const config::DiskConfig& config, std::uint64_t slots = kSlots) {
    down_.reset();
    box_ = std::make_unique<StoreBox>(slots);
    box_->add_session(1);
    auto tier = std::make_unique<ScriptedTier>();
    tier_ = tier.get();
    link_ = std::make_unique<TierLink>(TierKind::kDisk, std::move(tier), "/scripted");
    down_ = std::make_unique<TierWriter>(*link_, box_->store(), clock(), rules_for(config),
                                         slots * StoreBox::kSlotBytes);
  }
  static config::DiskConfig through(std::uint32_t admit_after = 1) {
    config::DiskConfig config;
    config.write = config::DiskWrite::kThrough;
    config.admit_after = admit_after;
    return config;
  }
  void fill(std::uint64_t from = 1, std::uint64_t to = kSlots) {
    for (std::uint64_t n = from; n <= to; ++n) ASSERT_EQ(box_->put(1, n).status, 0U) << n;
  }
  // As the loop does when the tier has messages.
  void deliver() {
    link_->deliver();
    down_->pump();
  }
  void settle() {
    for (int i = 0; i < 200; ++i) deliver();
  }
  tiers::ChunkKey below(std::uint64_t n) const {
    const protocol::Key key = box_->key(n);
    return {box_->store().namespaces().at(key.namespace_handle).spec.id, key.hash, key.shard,
            key.group};
  }
  bool is_below(std::uint64_t n) const { return tier_->probe(below(n)).has_value(); }

  virtual const base::Clock& clock() const { return clock_; }

  base::MonotonicClock clock_;
  std::unique_ptr<StoreBox> box_;
  ScriptedTier* tier_ = nullptr;
  std::unique_ptr<TierLink> link_;
  std::unique_ptr<TierWriter> down_;
};

TEST_F(TierWriterTest, WriteBackWritesOnlyTheColdestAheadOfEviction) {
  fill(1, 7);
  down_->tick();
  settle();
  EXPECT_EQ(tier_->puts, 0U) << "there is room";
  fill(8, 16);
  down_->tick();
  settle();
  EXPECT_EQ(tier_->puts, 8U);
  EXPECT_TRUE(is_below(1) && is_below(8));
  fill(17, 24);  // all at once
  EXPECT_FALSE(box_->find(8));
  EXPECT_EQ(box_->stats().evicted_unwritten, 0U);
  down_->tick();
  settle();
  EXPECT_TRUE(is_below(9) && is_below(16));
}

TEST_F(TierWriterTest, WrittenBytesEqualTheSlot) {
  fill();
  down_->tick();
  settle();
  ASSERT_EQ(tier_->stored.size(), 8U);
  const auto chunk = box_->find(1);
  const std::byte* slot = box_->arena() + chunk->offset_bytes;
  EXPECT_EQ(std::memcmp(tier_->stored[0].bytes.data(), slot, StoreBox::kSlotBytes), 0);
  EXPECT_EQ(tier_->stored[0].facts.root, chunk->root);
}

// In memory the two are two namespaces, in the tier one: each write replaces the other's chunk.
// covers F-102
TEST_F(TierWriterTest, TwoLayoutsReplaceEachOtherOnce) {
  std::string difference;
  protocol::Key other = box_->key(1);  // of two pieces
  other.namespace_handle = *box_->store().open_namespace(
      store::testing_support::make_spec("field: a\n", 2048, 2), &difference);
  ASSERT_NE(other.namespace_handle, box_->handle());
  ASSERT_EQ(box_->put(1, 1).status, 0U);
  ASSERT_EQ(box_->put(1, other).status, 0U);
  fill(2, kSlots - 1);
  const auto ticks = [&] {
    for (int i = 0; i < 100; ++i) {
      down_->tick();
      settle();
    }
  };
  ticks();
  const auto is_first = [&](const ScriptedTier::Stored& chunk) { return chunk.key == below(1); };
  EXPECT_EQ(std::ranges::count_if(tier_->stored, is_first), 2);
  // Computed anew, a chunk replaces the other's: no engine is refused for ever.
  const std::uint64_t piece = tier_->probe(below(1))->piece_bytes;
  const protocol::Key replaced = piece == 2048 ? box_->key(1) : other;
  fill(100, 100 + 2 * kSlots);
  ASSERT_FALSE(box_->has(replaced));
  ASSERT_EQ(box_->put(1, replaced).status, 0U);
  fill(200, 200 + kSlots - 2);
  ticks();
  EXPECT_NE(tier_->probe(below(1))->piece_bytes, piece);
}

// covers F-144
TEST_F(TierWriterTest, SlotIsNotReusedWhileBeingWritten) {
  fill();
  tier_->hold_back = true;
  down_->tick();
  ASSERT_EQ(tier_->held(), 2U);
  for (std::uint64_t n = 17; n < 40; ++n) box_->put(1, n);
  EXPECT_TRUE(box_->find(1) && box_->find(2));
  tier_->answer_held();  // reads the chunks only now
  deliver();
  EXPECT_EQ(tier_->stored[0].bytes[0], std::byte{1});
  EXPECT_EQ(box_->filled().kept_bytes, tier_->held() * StoreBox::kSlotBytes);
  for (std::uint64_t n = 40; n < 80; ++n) box_->put(1, n);
  EXPECT_FALSE(box_->find(1));
}

// covers F-144
TEST_F(TierWriterTest, SlotUsedBeyondTheDeadlineStaysKept) {
  fill();
  tier_->hold_back = true;
  down_->tick();
  tier_->miss_deadlines();
  deliver();
  EXPECT_EQ(box_->filled().kept_bytes, 2 * StoreBox::kSlotBytes);
  tier_->release_held();
  link_->deliver();
  EXPECT_EQ(box_->filled().kept_bytes, 0U);
}

// covers F-144
TEST_F(TierWriterTest, RefusedOrFailedWriteIsRetried) {
  fill();
  tier_->refusal = {Code::kUnavailable, "the device has not answered"};
  down_->tick();
  EXPECT_EQ(tier_->puts, 0U);
  EXPECT_EQ(box_->filled().kept_bytes, 0U);
  tier_->refusal = {};
  down_->tick();
  settle();
  EXPECT_TRUE(is_below(1) && is_below(2));
}

// covers F-145
TEST_F(TierWriterTest, ChunkLostByTheTierIsRewritten) {
  fill();
  down_->tick();
  settle();
  tier_->stored.clear();  // its region was evicted
  for (int i = 0; i < 20; ++i) {
    down_->tick();
    settle();
  }
  EXPECT_TRUE(is_below(1) && is_below(2));
}

TEST_F(TierWriterTest, ChunkPresentWithOtherGenerationIsNotRewritten) {
  fill();
  for (std::uint64_t n = 1; n <= 8; ++n)
    tier_->stored.push_back({below(n), {5, 4096, 4096, box_->find(n)->root}, {}});
  down_->tick();
  settle();
  EXPECT_EQ(tier_->puts, 0U);
  fill(17, 18);
  EXPECT_EQ(box_->stats().evicted_unwritten, 0U);
}

TEST_F(TierWriterTest, PermanentlyRefusedChunkIsNotRetried) {
  fill();
  tier_->outcome = {Code::kOutOfRange, "larger than a region"};
  down_->tick();
  settle();
  EXPECT_EQ(tier_->puts, 2U);
  for (int i = 0; i < 20; ++i) down_->tick();
  EXPECT_EQ(tier_->puts, 2U);
}

TEST_F(TierWriterTest, WriteThroughWritesStoredChunks) {
  begin(through());
  fill(1, 3);
  down_->tick();
  settle();
  EXPECT_TRUE(is_below(1) && is_below(2) && is_below(3));
}

// covers F-143
TEST_F(TierWriterTest, WriteThroughFindsChunksDroppedFromTheQueue) {
  constexpr std::uint64_t kMany = 5000;
  begin(through(), kMany + 100);
  fill(1, kMany);
  stats::TierStats stats;
  down_->fill(stats);
  EXPECT_EQ(stats.not_queued, kMany - 4096);
  for (int i = 0; i < 20 && tier_->stored.size() < kMany; ++i) {
    down_->tick();
    settle();
  }
  EXPECT_EQ(tier_->stored.size(), kMany);
  EXPECT_TRUE(is_below(kMany));
}

TEST_F(TierWriterTest, OpenPutsAreBoundedUntilAnswered) {
  constexpr std::uint64_t kMany = 300;
  begin(through(), 8 * kMany);  // an eighth of memory may be in flight
  fill(1, kMany);
  tier_->hold_back = true;
  down_->tick();
  EXPECT_EQ(tier_->held(), 256U);
  tier_->hold_back = false;
  tier_->answer_held();
  settle();
  EXPECT_EQ(tier_->stored.size(), kMany);
}

TEST_F(TierWriterTest, ChunkUsedOnceIsNotWrittenWithAdmitAfterTwo) {
  begin(through(2));
  const protocol::Grant used = box_->put(1, 1);
  box_->put(1, 2);
  box_->store().touch(used.slot, used.generation);
  for (int i = 0; i < 3; ++i) {
    down_->tick();
    settle();
  }
  EXPECT_TRUE(is_below(1));
  EXPECT_FALSE(is_below(2));
}

TEST_F(TierWriterTest, ChangedRulesApplyToStoredChunks) {
  fill(1, 4);
  down_->tick();
  settle();
  EXPECT_EQ(tier_->puts, 0U) << "there is room";
  down_->write_by(rules_for(through()));
  down_->tick();
  settle();
  EXPECT_EQ(tier_->puts, 4U);
  down_->write_by(rules_for(through(2)));
  fill(5, 6);
  down_->tick();
  settle();
  EXPECT_EQ(tier_->puts, 4U) << "seen once";
}

// covers F-139
TEST_F(TierWriterTest, DropReachesTheTierFirstAndBlocksItsWrites) {
  constexpr std::uint64_t kMany = store::Store::kSliceEffort + 100;
  begin(through(), kMany);
  fill(1, kMany);
  store::Drop drop{box_->handle()};
  box_->store().drop(drop);
  ASSERT_FALSE(drop.done);
  ASSERT_EQ(tier_->drops.size(), 1U);
  EXPECT_EQ(tier_->drops[0], below(1).namespace_id);
  ASSERT_TRUE(box_->find(kMany)) << "its slice is still to come";
  for (int i = 0; i < 10; ++i) {  // the walk comes to the chunk
    down_->tick();
    settle();
  }
  EXPECT_EQ(tier_->puts, 0U);
  box_->store().drop(drop);
  ASSERT_TRUE(drop.done);
  EXPECT_TRUE(down_->last_drop().get().ok());
  drop = {};
  ASSERT_EQ(box_->put(1, 7).status, 0U);
  down_->tick();
  settle();
  EXPECT_TRUE(is_below(7)) << "chunks stored afterwards are written again";
}

TEST_F(TierWriterTest, DropRefusedByAFullTierIsRetried) {
  tier_->refusal = {Code::kResourceExhausted, "too much"};
  const std::shared_future<Status> ended = down_->drop(below(1).namespace_id);
  down_->drop(below(1).namespace_id);
  EXPECT_TRUE(tier_->drops.empty());
  tier_->refusal = {};
  down_->tick();
  link_->deliver();
  EXPECT_EQ(tier_->drops.size(), 1U) << "two that wait are one";
  EXPECT_EQ(ended.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  EXPECT_TRUE(ended.get().ok());
  box_->drop();
  EXPECT_FALSE(tier_->drops.back()) << "all";
}

// Until the tier has the drop, the tier finds the chunks to drop: a promoted chunk would be found
// in memory after the drop was done.
TEST_F(TierWriterTest, PendingDropHidesItsNamespace) {
  const protocol::NamespaceId id = below(1).namespace_id,
                              other = protocol::namespace_id("other: 1\n");
  EXPECT_FALSE(down_->waits_for_drop(id));
  tier_->refusal = {Code::kResourceExhausted, "too much"};
  box_->drop(box_->handle());
  EXPECT_TRUE(down_->waits_for_drop(id));
  EXPECT_FALSE(down_->waits_for_drop(other));
  box_->drop();
  EXPECT_TRUE(down_->waits_for_drop(other)) << "all is dropped";
  tier_->refusal = {};
  down_->tick();
  settle();
  EXPECT_FALSE(down_->waits_for_drop(id));
  EXPECT_FALSE(down_->waits_for_drop(other));
}

TEST_F(TierWriterTest, RepeatedDropsAreMerged) {
  tier_->hold_back = true;
  for (int i = 0; i < 100; ++i) box_->drop(box_->handle());
  EXPECT_EQ(tier_->drops.size(), 1U);
  const std::shared_future<Status> last = down_->last_drop();
  tier_->answer_held();
  link_->deliver();
  EXPECT_EQ(tier_->drops.size(), 2U) << "chunks put since the first drop go, too";
  tier_->answer_held();
  link_->deliver();
  EXPECT_EQ(last.wait_for(std::chrono::seconds(0)), std::future_status::ready);
}

TEST_F(TierWriterTest, FullTableTakesDropsAgainOnceTheTierAnswers) {
  tier_->refusal = {Code::kResourceExhausted, "too much"};
  for (std::uint64_t n = 0; n < TierWriter::kMostDrops; ++n) {
    ASSERT_TRUE(box_->store().tiers().takes_drops()) << n;
    down_->drop(protocol::NamespaceId{n, 1});
  }
  EXPECT_FALSE(box_->store().tiers().takes_drops());
  tier_->refusal = {};
  down_->tick();
  link_->deliver();
  EXPECT_EQ(tier_->drops.size(), TierWriter::kMostDrops);
  EXPECT_TRUE(box_->store().tiers().takes_drops());
}

TEST_F(TierWriterTest, ChunkFoundDamagedDuringItsWriteIsForgotten) {
  begin(through());
  tier_->hold_back = true;
  fill(1, 1);
  down_->tick();
  ASSERT_EQ(tier_->held(), 1U);
  const auto chunk = box_->find(1);
  box_->arena()[chunk->offset_bytes] ^= std::byte{1};
  box_->store().report_bad({chunk->slot, 0, chunk->generation});
  while (box_->store().verify_next()) {
  }
  EXPECT_TRUE(tier_->forgotten.empty());
  tier_->answer_held();
  deliver();
  EXPECT_EQ(tier_->forgotten, std::vector<tiers::ChunkKey>{below(1)});
}

// covers F-158
TEST_F(TierWriterTest, DamagedChunkIsForgottenInTheTier) {
  fill();
  down_->tick();
  settle();
  const auto chunk = box_->find(1);
  box_->arena()[chunk->offset_bytes] ^= std::byte{1};
  box_->store().report_bad({chunk->slot, 0, chunk->generation});
  while (box_->store().verify_next()) {
  }
  EXPECT_EQ(tier_->forgotten, std::vector<tiers::ChunkKey>{below(1)});
}

TEST_F(TierWriterTest, AStopWritesTheRestFlushesAndCloses) {
  fill();
  down_->finish(clock_.now_ns() + 10'000'000'000);
  EXPECT_EQ(tier_->stored.size(), kSlots);
  EXPECT_EQ(tier_->flushes, 1U);
  EXPECT_TRUE(tier_->closed);
}

// covers F-142
TEST_F(TierWriterTest, StopEndsAtItsDeadline) {
  fill();
  tier_->hold_back = true;
  const std::uint64_t by_ns = clock_.now_ns() + 200'000'000;
  down_->finish(by_ns);
  EXPECT_GE(clock_.now_ns(), by_ns);
  EXPECT_LE(clock_.now_ns(), by_ns + 2'000'000'000);
  EXPECT_TRUE(tier_->closed);
  EXPECT_EQ(box_->filled().kept_bytes, 2 * StoreBox::kSlotBytes) << "the device still reads them";
}

// covers F-142
TEST_F(TierWriterTest, StopDoesNotWaitForADegradedTier) {
  fill();
  tier_->refusal = {Code::kUnavailable, "the directory went away"};
  const std::uint64_t from_ns = clock_.now_ns();
  down_->finish(from_ns + 10'000'000'000);
  EXPECT_LT(clock_.now_ns(), from_ns + 5'000'000'000);
  EXPECT_EQ(tier_->flushes, 0U);
}

TEST_F(TierWriterTest, ExplicitEvictionReachesTheTierWithoutMemoryCopy) {
  begin(through());
  fill(1, 3);
  settle();
  ASSERT_TRUE(is_below(1) && is_below(2));
  const std::vector<protocol::BlockHash> first{box_->key(1).hash}, absent{box_->key(9).hash};
  EXPECT_EQ(box_->store().families().evict(box_->handle(), first).found, 1U);
  EXPECT_EQ(tier_->forgotten, std::vector<tiers::ChunkKey>{below(1)});
  EXPECT_EQ(box_->store().families().evict(box_->handle(), first).found, 1U)
      << "of this tier, which forgets no chunk, also from there alone";
  EXPECT_EQ(box_->store().families().evict(box_->handle(), absent).absent, 1U);
  EXPECT_EQ(tier_->forgotten.size(), 2U);
  tier_->away = true;
  EXPECT_EQ(box_->store().families().evict(box_->handle(), absent).refused, 1U)
      << "it may have it when it is back";
}

// Refused chunks, on a clock in the test's hands.
class TierWriterRefusedTest : public TierWriterTest {
 protected:
  TierWriterRefusedTest() { begin({}); }
  const base::Clock& clock() const override { return time_; }
  // Like the loop: ten ticks a second.
  void pass_s(std::uint32_t s) {
    for (std::uint32_t i = 0; i < 10 * s; ++i) {
      time_.advance_ms(100);
      down_->tick();
      for (int j = 0; j < 20; ++j) deliver();
    }
  }
  std::string reason() const {
    stats::TierStats stats;
    link_->fill(stats);
    down_->fill(stats);
    return stats.reason;
  }

  base::ManualClock time_;
};

// Once the chunk was tried again at once, and at full speed for ever.
// covers F-144
TEST_F(TierWriterRefusedTest, FailedChunkIsRetriedWithBackoff) {
  fill();
  tier_->outcome = {Code::kResourceExhausted, "the server is full"};
  pass_s(60);
  EXPECT_GE(tier_->puts, 8U);
  EXPECT_LE(tier_->puts, 8 * 7U) << "of eight chunks, after 1, 2, 4, 8, 16 and 32 s";
  EXPECT_EQ(reason(), "the server is full");
  EXPECT_EQ(box_->filled().kept_bytes, 0U);
  EXPECT_FALSE(is_below(1));
  tier_->outcome = {};
  pass_s(90);
  for (std::uint64_t n = 1; n <= 8; ++n) EXPECT_TRUE(is_below(n)) << n;
  EXPECT_EQ(reason(), "");
}

TEST_F(TierWriterRefusedTest, EvictedChunkIsNoLongerReported) {
  fill();
  tier_->outcome = {Code::kUnavailable, "the server answered with an error"};
  pass_s(2);
  EXPECT_EQ(reason(), "the server answered with an error");
  tier_->outcome = {};
  for (std::uint64_t n = 17; n < 60; ++n) box_->put(1, n);
  pass_s(2);
  EXPECT_EQ(reason(), "");
}

// covers F-131
TEST_F(TierWriterRefusedTest, PermanentRefusalIsReportedWithTheSetting) {
  tier_->never = {Code::kOutOfRange, "disk.size: set it to at least 1024 MiB"};
  down_->tick();
  EXPECT_EQ(reason(), "disk.size: set it to at least 1024 MiB")
      << "of a namespace that is open, or came back at a start";
  fill(1, 16);
  pass_s(5);
  EXPECT_EQ(tier_->puts, 0U);
}

// With a time to live, on a clock that is set.
class TierWriterTtlTest : public TierWriterTest {
 protected:
  static constexpr std::uint32_t kTtlS = 1000;
  static constexpr std::uint32_t kCoarseS = kTtlS / 256 + 2;  // marks, and a second that turns

  TierWriterTtlTest() {
    config::DiskConfig config = through();
    config.ttl_s = kTtlS;
    begin(config);
  }
  const base::Clock& clock() const override { return time_; }
  void pass_s(std::uint32_t s) {
    for (std::uint32_t i = 0; i < s; ++i) {
      time_.advance_ms(1000);
      down_->tick();
    }
    settle();
  }
  static std::uint32_t now_s() {
    return static_cast<std::uint32_t>(ChunkAge::unix_ns() / 1'000'000'000);
  }

  base::ManualClock time_;
};

// covers F-154
TEST_F(TierWriterTtlTest, TtlCountsFromTheStore) {
  tier_->refusal = {Code::kUnavailable, "away"};
  fill(1, 1);
  pass_s(600);
  tier_->refusal = {};
  pass_s(1);
  ASSERT_EQ(tier_->stored.size(), 1U);
  const std::uint32_t age = now_s() - tier_->stored[0].facts.since_s;
  EXPECT_GE(age, 600U);
  EXPECT_LE(age, 601 + kCoarseS);
}

// Once the chunk was written anew with a fresh time to live, for as long as it stayed in memory.
// covers F-154
TEST_F(TierWriterTtlTest, ExpiredChunkIsNotRewritten) {
  fill();
  settle();
  ASSERT_EQ(tier_->puts, kSlots);
  pass_s(kTtlS - 20);
  tier_->stored.clear();
  pass_s(10);
  EXPECT_EQ(tier_->puts, kSlots + 8) << "lost below, and young enough";
  pass_s(30);
  tier_->stored.clear();
  pass_s(10);
  EXPECT_EQ(tier_->puts, kSlots + 8);
  EXPECT_TRUE(box_->find(1));
  box_->put(1, 17);
  EXPECT_EQ(box_->stats().evicted_not_admitted, 1U);
}

// covers F-154
TEST_F(TierWriterTtlTest, PromotedChunkKeepsItsTtlWhenWrittenBack) {
  const std::uint32_t young_s = now_s() - 900, old_s = now_s() - 2000;
  for (const auto& [n, since_s] : {std::pair{50, young_s}, std::pair{51, old_s}}) {
    const auto number = static_cast<std::uint64_t>(n);
    tier_->stored.push_back({below(number), {5, 4096, 4096, number, since_s}, {}});
    const protocol::Grant grant = box_->store().promote(box_->key(number), 4096, 4096);
    ASSERT_TRUE(box_->store().promoted({grant.slot, 0, grant.generation}, number, 0, since_s));
  }
  fill(1, 14);
  settle();
  tier_->stored.clear();
  pass_s(10);
  ASSERT_TRUE(is_below(50));
  EXPECT_NEAR(tier_->probe(below(50))->since_s, young_s, 1) << "a second may turn";
  EXPECT_FALSE(is_below(51));
}

TEST(ChunkAgeTest, AgesUseThePrecedingMarkOrTheInstanceStart) {
  base::ManualClock clock;
  ChunkAge since(256, clock);
  const std::uint64_t born = ChunkAge::unix_ns() / kNsAGeneration;
  for (std::uint64_t s = 0; s < 300; ++s) {
    since.tick(born + 10 * s);
    clock.advance_ms(1000);
  }
  EXPECT_EQ(since.age_s(born + 2991), 1U);
  EXPECT_EQ(since.age_s(born + 2990), 2U) << "given before that mark, at the latest";
  EXPECT_EQ(since.age_s(born + 2501), 50U);
  const std::uint64_t hour_ago = born - 3600ULL * 1'000'000'000 / kNsAGeneration;
  EXPECT_NEAR(static_cast<double>(since.age_s(hour_ago + 5)), 3600, 2);
  EXPECT_GT(since.age_s(1), 1'000'000'000U) << "nobody knows";
}

}  // namespace
}  // namespace larder::tiering::testing_support

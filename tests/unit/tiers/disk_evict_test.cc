// Chunks that are not wanted on the disk any more, one by one.
#include <gtest/gtest.h>

#include "tests/unit/tiers/disk_world.h"

namespace larder::disk::testing_support {
namespace {

class DiskEvictTest : public DiskWorld {
 protected:
  void SetUp() override { ASSERT_TRUE(open().ok()); }
};

// covers F-153
TEST_F(DiskEvictTest, EvictedChunksCountAsDroppedAndStayGoneAfterRestart) {
  // in closed regions, and in the open one
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(loop_->put(i).ok());
  for (const std::uint64_t i : {0, 4, 7}) ASSERT_TRUE(tier_->evict(key_of(i)).ok());
  EXPECT_EQ(loop_->get(7).code(), Code::kNotFound) << "in the order in which it was asked";
  EXPECT_EQ(tier_->counters().chunks_dropped, 3U);
  EXPECT_EQ(tier_->counters().records_corrupt, 0U);
  for (int life = 0; life < 2; ++life) {
    for (std::uint64_t i = 0; i < 8; ++i)
      EXPECT_EQ(loop_->get(i).ok(), i != 0 && i != 4 && i != 7) << i;
    ASSERT_TRUE(open().ok());
  }
}

// The device takes fewer requests: the rest wait, and no request is forgotten.
// covers F-153
TEST_F(DiskEvictTest, ManyEvictionsAreAllOverwritten) {
  constexpr std::uint64_t kChunks = 700;  // of two regions
  for (std::uint64_t i = 0; i < kChunks; ++i) ASSERT_TRUE(loop_->put(i, 1, 1, 4096).ok());
  for (std::uint64_t i = 0; i < kChunks; i += 2) ASSERT_TRUE(tier_->evict(key_of(i)).ok());
  ASSERT_TRUE(open().ok());
  for (std::uint64_t i = 0; i < kChunks; ++i)
    ASSERT_EQ(loop_->get(i, 1, 4096).ok(), i % 2 == 1) << i;
}

// covers F-153
TEST_F(DiskEvictTest, EvictionCoversPutsInFlightAndKeepsLaterOnes) {
  env_.faults.stalled = true;
  Slot slot(protocol::slot_bytes(kPayloadBytes, kPieceBytes));
  const tiers::ChunkFacts facts = fill(slot.span(), 1, 1);
  const tiers::Ticket put = loop_->next();
  ASSERT_TRUE(tier_->put(put, key_of(1), facts, slot.span(), loop_->in_ms(20'000)).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ASSERT_TRUE(tier_->evict(key_of(1)).ok());
  env_.faults.stalled = false;
  EXPECT_FALSE(loop_->ended(put).ok());
  EXPECT_FALSE(tier_->probe(key_of(1)).has_value());
  ASSERT_TRUE(await([&] { return !tier_->state().degraded(); }));
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(loop_->get(1).code(), Code::kNotFound);
  ASSERT_TRUE(loop_->put(1, 2).ok());
  EXPECT_TRUE(loop_->get(1).ok());
}

// covers F-153
TEST_F(DiskEvictTest, FailedTombstoneIsReported) {
  ASSERT_TRUE(loop_->put(1).ok());
  env_.faults.all_writes_fail = true;
  EXPECT_FALSE(loop_->put(2).ok());
  ASSERT_TRUE(await([&] { return !tier_->state().takes_puts; }));
  EXPECT_EQ(tier_->evict(key_of(1)).code(), Code::kUnavailable);
  EXPECT_EQ(loop_->get(1).code(), Code::kNotFound);
  env_.faults.all_writes_fail = false;
  ASSERT_TRUE(await([&] { return !tier_->state().degraded(); }));
  ASSERT_TRUE(open().ok());
  EXPECT_FALSE(loop_->get(1).ok()) << "noted as soon as writes worked";
  tier_->close(1000);
  EXPECT_EQ(tier_->evict(key_of(1)).code(), Code::kUnavailable);
}

// covers F-153
TEST_F(DiskEvictTest, FailedTombstoneIsRetriedWhenWritesWork) {
  for (std::uint64_t i = 0; i <= kChunksARegion; ++i) ASSERT_TRUE(loop_->put(i).ok());
  // the footer of the first region is written: it names the chunks that go now
  ASSERT_TRUE(quiet());
  env_.faults.fail_call = env_.faults.calls.load();
  ASSERT_TRUE(tier_->evict(key_of(0)).ok());
  ASSERT_TRUE(
      await([&] { return tier_->counters().times_degraded == 1 && !tier_->state().degraded(); }));
  ASSERT_TRUE(quiet());
  ASSERT_TRUE(open().ok());
  EXPECT_FALSE(loop_->get(0).ok());
  EXPECT_TRUE(loop_->get(1).ok());
}

// One place may be bad for ever: the tier does without this place.
// covers F-153
TEST_F(DiskEvictTest, PermanentlyFailingTombstoneDoesNotDegradeTheTier) {
  for (std::uint64_t i = 0; i <= kChunksARegion; ++i) ASSERT_TRUE(loop_->put(i).ok());
  ASSERT_TRUE(quiet());
  env_.faults.bad_offset = static_cast<std::int64_t>(offset_of(0, 0));
  ASSERT_TRUE(tier_->evict(key_of(0)).ok());
  ASSERT_TRUE(await([&] { return tier_->counters().times_degraded == 8; }));
  ASSERT_TRUE(await([&] { return !tier_->state().degraded(); }));
  ASSERT_TRUE(quiet());
  EXPECT_FALSE(tier_->state().degraded());
  EXPECT_EQ(tier_->counters().times_degraded, 8U);
  EXPECT_TRUE(loop_->put(9).ok() && loop_->get(9).ok() && loop_->get(1).ok());
}

// With every write as the first to fail, and with a chunk evicted from every region meanwhile.
// covers F-153
TEST_F(DiskEvictTest, PendingTombstonesDoNotBlockRegions) {
  constexpr std::uint64_t kRegions = 8;
  for (std::int64_t nth = 0; nth < 8; ++nth) {
    ASSERT_TRUE(open().ok());
    std::uint64_t next = 0;
    for (; next < 2 * kRegions * kChunksARegion; ++next) ASSERT_TRUE(loop_->put(next).ok());
    ASSERT_TRUE(quiet());
    env_.faults.writes_fail_from = env_.faults.calls + nth;
    for (int i = 0; i < 100 && tier_->state().takes_puts; ++i)
      static_cast<void>(loop_->put(next++));
    for (std::uint64_t i = 0; i < next; ++i) static_cast<void>(tier_->evict(key_of(i)));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(tier_->state().degraded()) << "call " << nth;
    env_.faults.writes_fail_from = INT64_MAX;
    EXPECT_TRUE(await([&] { return !tier_->state().degraded(); }, 2000)) << "call " << nth;
    EXPECT_TRUE(loop_->put(next).ok()) << "call " << nth;
  }
}

// covers F-153
TEST_F(DiskEvictTest, DropReportsItsChunkCount) {
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(loop_->put(i, 1, 1 + i % 2).ok());
  const tiers::Ticket drop = loop_->next(), clear = loop_->next();
  ASSERT_TRUE(tier_->drop_namespace(drop, {1, ~1ULL}, loop_->in_ms(20'000)).ok());
  ASSERT_TRUE(tier_->clear(clear, loop_->in_ms(20'000)).ok());
  EXPECT_EQ(loop_->done(drop)->dropped, 3U);
  EXPECT_EQ(loop_->done(clear)->dropped, 2U);
}

}  // namespace
}  // namespace larder::disk::testing_support

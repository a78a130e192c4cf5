// Drops, times to live and deadlines of the disk tier.
#include <gtest/gtest.h>

#include "tests/unit/tiers/disk_world.h"

namespace larder::disk::testing_support {
namespace {

class DiskDropTest : public DiskWorld {
 protected:
  void SetUp() override { ASSERT_TRUE(open().ok()); }

  // A put that the device has, and then a drop of its namespace. REQUIRES: the device stands still.
  void put_and_drop(Slot& slot, tiers::Ticket put, tiers::Ticket drop) {
    const tiers::ChunkFacts facts = fill(slot.span(), 1, 1);
    ASSERT_TRUE(tier_->put(put, key_of(1), facts, slot.span(), loop_->in_ms(20'000)).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_TRUE(tier_->drop_namespace(drop, {1, ~1ULL}, loop_->in_ms(20'000)).ok());
  }
};

// covers F-139, F-154
TEST_F(DiskDropTest, SurvivesARestartForChunksAnywhere) {
  for (std::uint64_t i = 0; i < 12; ++i) ASSERT_TRUE(loop_->put(i, 1, i % 3).ok());
  ASSERT_TRUE(loop_->drop(0).ok());
  for (std::uint64_t i = 12; i < 15; ++i) ASSERT_TRUE(loop_->put(i, 1, i % 3).ok());
  for (int life = 0; life < 2; ++life) {
    ASSERT_TRUE(open().ok());
    for (std::uint64_t i = 0; i < 15; ++i)
      EXPECT_EQ(loop_->get(i, i % 3).ok(), i % 3 != 0 || i >= 12) << i;
  }
}

// covers F-154
TEST_F(DiskDropTest, DropsOverTheLabelLimitClearTheTier) {
  ASSERT_TRUE(loop_->put(1, 1, 1).ok());
  for (std::uint64_t space = 100; space < 100 + kMaxDropMarks; ++space) {
    const tiers::Ticket ticket = loop_->next();
    ASSERT_TRUE(tier_->drop_namespace(ticket, {space, ~space}, loop_->in_ms(20'000)).ok());
    ASSERT_TRUE(space % 64 != 0 || loop_->ended(ticket).ok());
  }
  ASSERT_TRUE(loop_->flush().ok());
  EXPECT_TRUE(loop_->get(1, 1).ok());
  ASSERT_TRUE(loop_->drop(1).ok());
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(loop_->get(1, 1).code(), Code::kNotFound);
}

// covers F-154
TEST_F(DiskDropTest, APutInFlightIsDroppedWithItsNamespace) {
  env_.faults.stalled = true;
  Slot slot(protocol::slot_bytes(kPayloadBytes, kPieceBytes));
  const tiers::Ticket put = loop_->next(), drop = loop_->next();
  ASSERT_NO_FATAL_FAILURE(put_and_drop(slot, put, drop));
  env_.faults.stalled = false;
  EXPECT_FALSE(loop_->ended(put).ok());
  EXPECT_TRUE(loop_->ended(drop).ok());
  EXPECT_FALSE(tier_->probe(key_of(1)).has_value());
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(loop_->get(1).code(), Code::kNotFound);
}

// covers F-154
TEST_F(DiskDropTest, KeepsLaterPutsInARegionBeingOpened) {
  options_.stall_ms = 20'000;
  ASSERT_TRUE(open().ok());
  env_.faults.stalled = true;
  Slot slot(protocol::slot_bytes(kPayloadBytes, kPieceBytes));
  const tiers::Ticket put = loop_->next(), drop = loop_->next();
  ASSERT_NO_FATAL_FAILURE(put_and_drop(slot, put, drop));
  EXPECT_FALSE(loop_->ended(put).ok());
  env_.faults.stalled = false;
  EXPECT_TRUE(loop_->ended(drop).ok());
  ASSERT_TRUE(loop_->put(2).ok());
  ASSERT_TRUE(open().ok());
  EXPECT_TRUE(loop_->get(2).ok());
  EXPECT_EQ(loop_->get(1).code(), Code::kNotFound);
}

// No other record tells the end of the order of appends.
// covers F-154
TEST_F(DiskDropTest, KeepsLaterPutsWithoutAnyTrailer) {
  for (const bool all : {false, true}) {
    for (std::uint64_t i = 0; i < 14; ++i) ASSERT_TRUE(loop_->put(i).ok());
    ASSERT_TRUE((all ? loop_->clear() : loop_->drop(1)).ok());
    close();
    // other bits each time: no label is mended
    for (std::uint64_t region = 0; region < 8; ++region)
      damage(offset_of(region, kRegionBytes / kBlockBytes - 1) + 8, 1, all ? 2 : 1);
    ASSERT_TRUE(open().ok());
    EXPECT_EQ(loop_->get(0).code(), Code::kNotFound);
    ASSERT_TRUE(loop_->put(20).ok());
    ASSERT_TRUE(open().ok());
    EXPECT_TRUE(loop_->get(20).ok()) << (all ? "cleared" : "dropped");
  }
}

// The mark of a drop is kept as long as a region may hold dropped chunks: also a mark that a start
// could not read.
// covers F-154
TEST_F(DiskDropTest, SurvivesAStartWithAnUnreadableRegion) {
  ASSERT_TRUE(loop_->put(1).ok() && loop_->drop(1).ok());
  close();
  int opened = 0;
  for (std::int64_t call = 0; call < 30; ++call) {
    env_.faults.calls = 0;
    env_.faults.fail_call = call;
    const bool started = open().ok();
    env_.faults.fail_call = -1;
    if (!started) continue;
    ++opened;
    ASSERT_TRUE(loop_->drop(99).ok());
    ASSERT_TRUE(open().ok());
    ASSERT_FALSE(tier_->probe(key_of(1)).has_value()) << "after call " << call;
    close();
  }
  EXPECT_GT(opened, 8);
}

// covers F-154
TEST_F(DiskDropTest, ChunksOlderThanTheTimeToLiveAreMisses) {
  options_.ttl_s = 3600;
  ASSERT_TRUE(open().ok());
  ASSERT_TRUE(loop_->put(1).ok());
  EXPECT_TRUE(loop_->get(1).ok());
  env_.faults.clock_offset_s = 3601;
  EXPECT_FALSE(tier_->probe(key_of(1)).has_value());
  EXPECT_EQ(loop_->get(1).code(), Code::kNotFound);
  EXPECT_EQ(tier_->counters().chunks_expired, 1U);
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(loop_->get(1).code(), Code::kNotFound);
  ASSERT_TRUE(loop_->put(1).ok()) << "stored anew";
  EXPECT_TRUE(loop_->get(1).ok());
}

// covers F-154
TEST_F(DiskDropTest, TimeToLiveCountsFromTheTimeInThePut) {
  options_.ttl_s = 3600;
  ASSERT_TRUE(open().ok());
  Slot slot(protocol::slot_bytes(kPayloadBytes, kPieceBytes));
  tiers::ChunkFacts facts = fill(slot.span(), 1, 1);
  facts.since_s = env_.unix_s() - 3000;
  const tiers::Ticket put = loop_->next();
  ASSERT_TRUE(tier_->put(put, key_of(1), facts, slot.span(), loop_->in_ms(20'000)).ok());
  ASSERT_TRUE(loop_->ended(put).ok());
  for (int life = 0; life < 2; ++life) {
    ASSERT_TRUE(loop_->get(1).ok());
    EXPECT_EQ(tier_->probe(key_of(1))->since_s, facts.since_s);
    ASSERT_TRUE(open().ok());
  }
  env_.faults.clock_offset_s = 700;
  EXPECT_EQ(loop_->get(1).code(), Code::kNotFound);
}

// covers F-154
TEST_F(DiskDropTest, PutOfAPresentChunkWritesNothing) {
  ASSERT_TRUE(loop_->put(1).ok());
  ASSERT_TRUE(loop_->flush().ok());
  const std::uint64_t written = tier_->counters().written_bytes;
  ASSERT_TRUE(loop_->put(1).ok());
  ASSERT_TRUE(loop_->flush().ok());
  EXPECT_EQ(tier_->counters().written_bytes, written);
  EXPECT_EQ(tier_->counters().puts_present, 1U);
}

// covers F-154
TEST_F(DiskDropTest, WriteAmplificationStaysNearOne) {
  for (std::uint64_t i = 0; i < 60; ++i) ASSERT_TRUE(loop_->put(i).ok());
  const tiers::TierCounters counters = tier_->counters();
  EXPECT_LE(static_cast<double>(counters.written_bytes),
            1.02 * static_cast<double>(counters.put_bytes));
  EXPECT_GE(counters.written_bytes, counters.put_bytes);
}

// covers F-154
TEST_F(DiskDropTest, CloseEndsRequestsInFlightAndWritesAFooter) {
  Slot slot(protocol::slot_bytes(kPayloadBytes, kPieceBytes));
  const tiers::ChunkFacts facts = fill(slot.span(), 1, 1);
  const tiers::Ticket put = loop_->next();
  ASSERT_TRUE(tier_->put(put, key_of(1), facts, slot.span(), loop_->in_ms(20'000)).ok());
  EXPECT_TRUE(tier_->close(10'000));
  EXPECT_TRUE(loop_->ended(put).ok());
  ASSERT_TRUE(open().ok());
  EXPECT_LT(tier_->counters().read_bytes, 17U << 20)
      << "no region was read through but the one opened ahead";
  EXPECT_TRUE(loop_->get(1).ok());
}

// covers F-154
TEST_F(DiskDropTest, CloseOfAStalledDeviceFailsAfterItsGrace) {
  env_.faults.stalled = true;
  Slot slot(protocol::slot_bytes(kPayloadBytes, kPieceBytes));
  const tiers::ChunkFacts facts = fill(slot.span(), 1, 1);
  const tiers::Ticket put = loop_->next();
  ASSERT_TRUE(tier_->put(put, key_of(1), facts, slot.span(), loop_->in_ms(60'000)).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(tier_->close(100));
  const std::optional<tiers::Message> done = loop_->done(put);
  ASSERT_TRUE(done.has_value());
  EXPECT_EQ(done->status.code(), Code::kUnavailable);
  env_.faults.stalled = false;
  EXPECT_TRUE(!done->slot_busy || loop_->done(put, tiers::Message::Kind::kReleased).has_value());
}

}  // namespace
}  // namespace larder::disk::testing_support

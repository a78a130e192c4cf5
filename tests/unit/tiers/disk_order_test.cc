// Operations that end, or are read, in another order than their begin.
#include <gtest/gtest.h>

#include "tests/unit/tiers/disk_world.h"

namespace larder::disk::testing_support {
namespace {

class DiskOrderTest : public DiskWorld {
 protected:
  void SetUp() override {
    options_.stall_ms = 20'000;
    ASSERT_TRUE(open().ok());
  }

  // Begins, and does not wait.
  tiers::Ticket put(Slot& slot, std::uint64_t number, std::uint64_t generation) {
    const tiers::ChunkFacts facts = fill(slot.span(), number, generation);
    const tiers::Ticket ticket = loop_->next();
    EXPECT_TRUE(tier_->put(ticket, key_of(number), facts, slot.span(), loop_->in_ms(20'000)).ok());
    return ticket;
  }
  bool called(std::int64_t calls) {
    return await([&] { return env_.faults.calls >= calls; });
  }

  static constexpr std::uint64_t kSlotBytes = protocol::slot_bytes(kPayloadBytes, kPieceBytes);
};

// The view of the next life, which finds both in the file.
TEST_F(DiskOrderTest, LaterAppendOfTwoPutsInFlightWins) {
  ASSERT_TRUE(loop_->put(0).ok());
  ASSERT_TRUE(quiet());
  env_.faults.stalled = env_.faults.newest_first = true;
  const std::int64_t calls = env_.faults.calls;
  Slot one(kSlotBytes), two(kSlotBytes);
  const tiers::Ticket first = put(one, 1, 1), second = put(two, 1, 2);
  ASSERT_TRUE(called(calls + 2) && quiet());
  env_.faults.stalled = false;
  EXPECT_TRUE(loop_->ended(first).ok() && loop_->ended(second).ok());
  for (int life = 0; life < 2; ++life) {
    ASSERT_TRUE(tier_->probe(key_of(1)).has_value());
    EXPECT_EQ(tier_->probe(key_of(1))->generation, 2U) << life;
    EXPECT_TRUE(loop_->get(1).ok());
    ASSERT_TRUE(open().ok());
  }
}

// Both are in flight side by side: the first one's bytes may be the missing ones.
TEST_F(DiskOrderTest, RecordBehindAGapIsFoundAfterAKill) {
  ASSERT_TRUE(loop_->put(0).ok());
  ASSERT_TRUE(quiet());
  env_.faults.stalled = true;
  env_.faults.bad_offset = static_cast<std::int64_t>(offset_of(0, 1 + kSlotBytes / kBlockBytes));
  const std::int64_t calls = env_.faults.calls;
  Slot one(kSlotBytes), two(kSlotBytes);
  const tiers::Ticket first = put(one, 1, 1), second = put(two, 2, 1);
  ASSERT_TRUE(called(calls + 2) && quiet());
  {
    const Result<std::unique_ptr<tiers::Tier>> next = open_as_if_killed();
    ASSERT_TRUE(next.ok()) << next.status().to_string();
    EXPECT_TRUE((*next)->probe(key_of(0)).has_value());
    EXPECT_FALSE((*next)->probe(key_of(1)).has_value());
    EXPECT_TRUE((*next)->probe(key_of(2)).has_value());
  }
  env_.faults.bad_offset = -1;
  env_.faults.stalled = false;
  EXPECT_FALSE(loop_->ended(first).ok());
  EXPECT_TRUE(loop_->ended(second).ok());
}

// The oldest, whose chunks would have been evicted a moment later.
TEST_F(DiskOrderTest, KillCostsOnlyTheRegionBeingOpened) {
  constexpr std::uint64_t kPuts = 10 * kChunksARegion;
  for (std::uint64_t i = 0; i < kPuts; ++i) ASSERT_TRUE(loop_->put(i).ok());
  ASSERT_TRUE(quiet());
  const auto lost = [&] {
    const Result<std::unique_ptr<tiers::Tier>> next = open_as_if_killed();
    EXPECT_TRUE(next.ok()) << next.status().to_string();
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t i = 0; i < kPuts && next.ok(); ++i)
      if (tier_->probe(key_of(i)) && !(*next)->probe(key_of(i))) numbers.push_back(i);
    return numbers;
  };
  EXPECT_EQ(lost().size(), 0U) << "no region is being opened";
  std::uint64_t oldest = 0;
  while (oldest < kPuts && !tier_->probe(key_of(oldest))) ++oldest;
  env_.faults.stalled = true;
  const std::int64_t calls = env_.faults.calls;
  Slot slot(kSlotBytes);
  // the region that was open is full: the oldest one is opened ahead
  const tiers::Ticket putting = put(slot, kPuts, 1);
  ASSERT_TRUE(called(calls + 2) && quiet());
  EXPECT_EQ(lost(), (std::vector<std::uint64_t>{oldest, oldest + 1, oldest + 2}));
  env_.faults.stalled = false;
  EXPECT_TRUE(loop_->ended(putting).ok());
}

// A read may begin while its region is being opened anew, and last.
TEST_F(DiskOrderTest, RegionBeingReadIsNotAppendedTo) {
  std::uint64_t next = 0, oldest = 0;
  for (; next < 10 * kChunksARegion; ++next) ASSERT_TRUE(loop_->put(next).ok());
  ASSERT_TRUE(quiet());  // a region may still have been opened ahead
  while (oldest < next && !tier_->probe(key_of(oldest))) ++oldest;
  env_.faults.stalled = true;
  const std::int64_t calls = env_.faults.calls;
  Slot first(kSlotBytes), read(kSlotBytes), last(kSlotBytes);
  // the region that was open is full: the oldest one is opened ahead
  const tiers::Ticket putting = put(first, next++, 1);
  ASSERT_TRUE(called(calls + 2) && quiet());
  ASSERT_TRUE(tier_->probe(key_of(oldest)).has_value());
  env_.faults.hold_reads = true;
  const tiers::Ticket reading = loop_->next();
  ASSERT_TRUE(tier_->get(reading, key_of(oldest), read.span(), loop_->in_ms(20'000)).ok());
  ASSERT_TRUE(quiet());
  env_.faults.stalled = false;
  EXPECT_TRUE(loop_->ended(putting).ok());
  for (std::uint64_t i = 1; i < kChunksARegion; ++i) ASSERT_TRUE(loop_->put(next++).ok());
  EXPECT_FALSE(tier_->probe(key_of(oldest)).has_value()) << "its region is another one";
  const tiers::Ticket appending = put(last, next, 1);
  ASSERT_TRUE(quiet());
  env_.faults.hold_reads = false;
  const std::optional<tiers::Message> done = loop_->done(reading);
  ASSERT_TRUE(done.has_value());
  EXPECT_TRUE(done->status.ok()) << done->status.to_string();
  EXPECT_TRUE(holds(read.span(), oldest, done->facts));
  EXPECT_TRUE(loop_->ended(appending).ok());
  EXPECT_TRUE(loop_->get(next).ok());
}

}  // namespace
}  // namespace larder::disk::testing_support

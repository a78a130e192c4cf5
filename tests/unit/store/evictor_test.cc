// Evictor without a Store around it: the families that go, and the families that stay.
#include "sidecar/store/evictor.h"

#include "sidecar/store/store_limits.h"
#include "tests/unit/store/parts_fixture.h"

namespace larder::store::testing_support {
namespace {

class EvictorTest : public testing::Test {
 protected:
  bool room() {
    std::uint32_t may_examine = kReserveEffort;
    const SlotArena::Slot slot = evictor_.take_slot(box_.size_class(), may_examine);
    if (slot.number != kNoSlot) box_.chunks().arena().give(slot.number, slot.offset_bytes);
    return slot.number != kNoSlot;
  }
  void fill() {
    for (std::uint64_t n = 1; n <= 4; ++n) box_.put_family(n);
  }

  PartsBox parts_{8};
  ChunkBox& box_ = parts_.box;
  Evictor evictor_{box_.chunks(), parts_.listeners, parts_.readers, parts_.grace, parts_.stats};
};

TEST_F(EvictorTest, ColdestFamilyIsEvictedAsAWhole) {
  fill();
  EXPECT_TRUE(room());
  EXPECT_FALSE(box_.has(1, 0));
  EXPECT_FALSE(box_.has(1, 1));
  EXPECT_TRUE(box_.has(2, 0));
  EXPECT_EQ(parts_.stats.evicted_capacity, 2U);
  EXPECT_EQ(box_.chunks().committed(), 6U);
}

TEST_F(EvictorTest, AHeldFamilyStaysAndCountsAsUsed) {
  fill();
  parts_.hold(box_.chunks().index().find(box_.key(1, 1)));
  EXPECT_TRUE(room());
  EXPECT_TRUE(box_.has(1, 0) && box_.has(1, 1));
  EXPECT_FALSE(box_.has(2));
  parts_.let_go();
  for (std::uint64_t n = 3; n <= 4; ++n) {
    box_.put_family(n + 10);
    EXPECT_TRUE(room());
    EXPECT_FALSE(box_.has(n)) << "is colder than the family that was held";
    EXPECT_TRUE(box_.has(1));
  }
}

TEST_F(EvictorTest, AKeptSlotStays) {
  PartsBox& parts = parts_;
  box_.put_family(1);
  const protocol::SlotRef kept = box_.ref(box_.chunks().index().find(box_.key(1)));
  ASSERT_TRUE(parts.readers.keep(kept.slot, kept.generation));
  for (std::uint64_t n = 2; n <= 4; ++n) box_.put_family(n);
  EXPECT_TRUE(room());
  EXPECT_TRUE(box_.has(1, 0) && box_.has(1, 1));
}

TEST_F(EvictorTest, FamilyBeingWrittenStays) {
  for (std::uint64_t n = 1; n <= 4; ++n) {
    box_.put(n, 0);
    box_.grant(box_.take(), box_.key(n, 1));
  }
  EXPECT_FALSE(room());
  EXPECT_EQ(box_.chunks().committed(), 4U);
}

// 1 is held, so that the next batch has 2 and its parent 3 together.
class KeptTails : public EvictorTest {
 protected:
  void fill_with_tail() {
    parts_.hold(box_.put(1));
    const std::uint32_t parent = box_.put(3), tail = box_.put(2);
    box_.chunks().index().set_parent(tail, parent);
    box_.chunks().order().begin_uses();
    box_.chunks().order().touch(tail);
    box_.chunks().order().begin_uses();
  }
};

TEST_F(KeptTails, AHeldTailKeepsItsHead) {
  fill_with_tail();
  StoreBox::hold(parts_.region(), 1,
                 {0, box_.chunks().index().find(box_.key(2)),
                  box_.ref(box_.chunks().index().find(box_.key(2))).generation, 0});
  for (std::uint64_t n = 4; n <= 8; ++n) box_.put(n);
  EXPECT_TRUE(room());
  EXPECT_TRUE(box_.has(2) && box_.has(3));
  EXPECT_FALSE(box_.has(4));
}

TEST_F(KeptTails, TailBeingWrittenKeepsItsHead) {
  fill_with_tail();
  box_.grant(box_.take(), box_.key(2, 1));
  for (std::uint64_t n = 4; n <= 7; ++n) box_.put(n);
  EXPECT_TRUE(room());
  EXPECT_TRUE(box_.has(2) && box_.has(3));
  EXPECT_FALSE(box_.has(4));
}

TEST_F(EvictorTest, ReportsWhetherItKeptWarmerChunks) {
  fill();
  std::uint32_t may_examine = kReserveEffort;
  const std::uint64_t coldest =
      box_.chunks().table().note(box_.chunks().index().find(box_.key(1))).used_stamp;
  EXPECT_EQ(evictor_.take_slot(box_.size_class(), may_examine, coldest).number, kNoSlot);
  EXPECT_TRUE(evictor_.kept_warmer());
  EXPECT_LT(may_examine, kReserveEffort) << "a failed search has its cost";
  parts_.grace.begin({});
  EXPECT_EQ(evictor_.take_slot(box_.size_class(), may_examine, coldest).number, kNoSlot);
  EXPECT_FALSE(evictor_.kept_warmer()) << "nothing is evicted before the restart has settled";
}

TEST_F(EvictorTest, APinnedFamilyStays) {
  fill();
  for (std::uint64_t n = 1; n <= 4; ++n)
    for (std::uint16_t shard = 0; shard < 2; ++shard)
      box_.chunks().pin(box_.chunks().index().find(box_.key(n, shard)));
  EXPECT_FALSE(room());
  box_.chunks().unpin_all(std::vector{box_.chunks().index().find(box_.key(3, 0)),
                                      box_.chunks().index().find(box_.key(3, 1))});
  EXPECT_TRUE(room());
  EXPECT_FALSE(box_.has(3));
}

TEST_F(EvictorTest, EvictsNothingDuringTheRecoveryGrace) {
  fill();
  parts_.grace.begin({});
  EXPECT_FALSE(room());
  std::vector<protocol::SlotRef> next;
  evictor_.next_to_go(0, next, false);
  EXPECT_TRUE(next.empty());
  parts_.grace.end();
  evictor_.next_to_go(0, next, false);
  EXPECT_FALSE(next.empty());
  EXPECT_TRUE(room());
}

}  // namespace
}  // namespace larder::store::testing_support

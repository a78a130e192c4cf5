// Removals without a Store around: a chunk is out of sight at once, and its slot waits for the last
// reader.
#include "sidecar/store/removals.h"

#include <random>

#include "tests/unit/store/parts_fixture.h"
#include "tests/unit/store/recording_listener.h"

namespace larder::store::testing_support {
namespace {

using protocol::SlotState;

class RemovalsTest : public testing::Test {
 protected:
  PartsBox parts_{64};
  ChunkBox& box_ = parts_.box;
  Removals removals_{box_.chunks(),   parts_.grace,   parts_.listeners,
                     parts_.sessions, parts_.readers, parts_.stats};
};

TEST_F(RemovalsTest, ADoomedSlotWaitsForItsReader) {
  const std::uint32_t slot = box_.put(1);
  parts_.hold(slot);
  removals_.doom(slot);
  EXPECT_EQ(box_.chunks().index().find(box_.key(1)), kNoSlot);
  EXPECT_EQ(box_.opened().slots, 0U) << "the slot names no namespace";
  removals_.free_doomed();
  EXPECT_EQ(box_.state(slot), SlotState::kDying);
  parts_.let_go();
  removals_.free_doomed();
  EXPECT_EQ(box_.state(slot), SlotState::kFree);
  EXPECT_EQ(box_.free_slots(), 64U);
}

TEST_F(RemovalsTest, ADoomedSlotWaitsForTheEndOfTheRestart) {
  const std::uint32_t slot = box_.put(1);
  removals_.doom(slot);
  parts_.grace.begin({});
  removals_.free_doomed();
  EXPECT_EQ(box_.state(slot), SlotState::kDying);
  parts_.grace.end();
  removals_.free_doomed();
  EXPECT_EQ(box_.state(slot), SlotState::kFree);
}

TEST_F(RemovalsTest, ABadChunkIsVerifiedBeforeItsSlotIsFree) {
  const std::uint32_t slot = box_.put(1, 0), other = box_.put(1, 1);
  box_.chunks().pin(slot);
  box_.chunks().pin(other);
  removals_.report_bad({slot, 0, box_.ref(slot).generation + 1});
  EXPECT_TRUE(box_.has(1)) << "of another generation";
  removals_.report_bad(box_.ref(slot));
  EXPECT_FALSE(box_.has(1));
  EXPECT_EQ(box_.chunks().pinned_bytes(), 0U) << "the family is incomplete";
  EXPECT_TRUE(box_.has(1, 1));
  removals_.free_doomed();
  EXPECT_EQ(box_.state(slot), SlotState::kDying);
  EXPECT_TRUE(removals_.verify_next());
  EXPECT_FALSE(removals_.verify_next());
  EXPECT_EQ(parts_.stats.bad_confirmed, 1U) << "the memory is zero, and the root is not";
  removals_.free_doomed();
  EXPECT_EQ(box_.state(slot), SlotState::kFree);
}

TEST_F(RemovalsTest, ADropQuarantinesTheGrantsOfTheNamespace) {
  box_.put_family(1);
  const SlotArena::Slot granted = box_.take();
  box_.grant(granted, box_.key(2));
  parts_.sessions.take_in(parts_.sessions.at(1), granted.number);
  Drop drop{box_.handle()};
  while (!drop.done) removals_.drop(drop);
  EXPECT_EQ(drop.dropped, 2U);
  EXPECT_EQ(parts_.stats.evicted_dropped, 2U);
  EXPECT_EQ(box_.state(granted.number), SlotState::kQuarantined);
  EXPECT_EQ(box_.opened().slots, 0U);
  EXPECT_EQ(box_.free_slots(), 63U);
}

TEST_F(RemovalsTest, DropOfClosedNamespaceReachesNoTier) {
  RecordingListener listener;
  parts_.listeners.set(0, &listener);
  Drop drop{box_.handle()};
  box_.chunks().namespaces().join(box_.handle());
  box_.chunks().leave_namespace(box_.handle());
  ASSERT_FALSE(box_.chunks().namespaces().is_open(box_.handle()));
  removals_.drop(drop);
  EXPECT_TRUE(drop.done);
  EXPECT_TRUE(listener.drops.empty()) << "the handle may serve another namespace soon";
}

TEST_F(RemovalsTest, ExactlySlotsWithoutReaderAreFreedInRandomRuns) {
  std::mt19937 random(11);
  std::uint64_t keys = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<std::uint32_t> slots;
    for (std::uint64_t i = 0; i < 1 + random() % 20; ++i) slots.push_back(box_.put(++keys));
    const std::uint32_t held = slots[random() % slots.size()];
    parts_.hold(held);
    for (const std::uint32_t slot : slots) removals_.doom(slot);
    removals_.free_doomed();
    for (const std::uint32_t slot : slots)
      ASSERT_EQ(box_.state(slot), slot == held ? SlotState::kDying : SlotState::kFree);
    ASSERT_EQ(box_.free_slots(), 63U);
    ASSERT_EQ(box_.chunks().committed(), 0U);
    parts_.let_go();
    removals_.free_doomed();
    ASSERT_EQ(box_.free_slots(), 64U);
  }
}

}  // namespace
}  // namespace larder::store::testing_support

// The map of slots: moves, a new map, and replicas.
#include "sidecar/tiers/remote/topology/slot_map.h"

#include <gtest/gtest.h>

namespace larder::remote {
namespace {

class SlotMapTest : public testing::Test {
 protected:
  Node one_{Health(1, 1), WriteGate({1, 1, 1}, 0)}, other_{Health(1, 1), WriteGate({1, 1, 1}, 0)};
  SlotMap map_;
};

TEST_F(SlotMapTest, MoveReportsAChangedMaster) {
  EXPECT_EQ(map_.master(7), nullptr);
  EXPECT_TRUE(map_.move(7, &one_));
  EXPECT_FALSE(map_.move(7, &one_));
  EXPECT_EQ(map_.master(7), &one_);
  EXPECT_EQ(map_.master(8), nullptr);
  EXPECT_TRUE(map_.move(7, &other_));
  EXPECT_EQ(map_.master(7), &other_);
}

TEST_F(SlotMapTest, ANewMapReplacesEverySlot) {
  map_.move(3, &one_);
  SlotMap::Slots slots{};
  slots[kSlots - 1] = &other_;
  EXPECT_TRUE(map_.replace(slots));
  EXPECT_FALSE(map_.replace(slots));
  EXPECT_EQ(map_.master(3), nullptr);
  EXPECT_EQ(map_.master(kSlots - 1), &other_);
}

TEST_F(SlotMapTest, ReplicaServesOnlyItsRanges) {
  other_.replica = true;
  map_.move(5, &one_);
  map_.add_replica({4, 6, {}}, &other_);
  EXPECT_EQ(map_.replica(3), nullptr);
  EXPECT_EQ(map_.replica(4), &other_);
  EXPECT_EQ(map_.replica(6), &other_);
  EXPECT_EQ(map_.replica(7), nullptr);
  EXPECT_TRUE(map_.leads_to(one_, 5) && map_.leads_to(other_, 5));
  EXPECT_FALSE(map_.leads_to(one_, 4));
  EXPECT_EQ(map_.master(5), &one_) << "a replica is no master";
  map_.clear_replicas();
  EXPECT_EQ(map_.replica(5), nullptr);
  EXPECT_EQ(map_.master(5), &one_);
}

}  // namespace
}  // namespace larder::remote

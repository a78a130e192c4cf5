// Slots that larderd itself keeps: for the number of keeps, the slots are neither evicted nor
// freed.
#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

using protocol::GrantStatus;

class KeptSlotsTest : public testing::Test {
 protected:
  KeptSlotsTest() { box_.add_session(1); }

  StoreBox box_{1};
};

TEST_F(KeptSlotsTest, AKeptSlotIsFoundAndNotEvicted) {
  const protocol::Grant grant = box_.put(1, 1);
  ASSERT_TRUE(box_.store().readers().keep(grant.slot, grant.generation));
  EXPECT_EQ(box_.reserve(1, 2).status, status_of(GrantStatus::kNoSpace));
  EXPECT_TRUE(box_.find(1));
  EXPECT_EQ(box_.filled().kept_bytes, StoreBox::kSlotBytes);
  box_.store().readers().let_go(grant.slot, grant.generation);
  EXPECT_EQ(box_.filled().kept_bytes, 0U);
  EXPECT_EQ(box_.reserve(1, 2).status, status_of(GrantStatus::kGranted));
}

TEST_F(KeptSlotsTest, ASlotKeptTwiceIsReleasedTwice) {
  const protocol::Grant grant = box_.put(1, 1);
  ASSERT_TRUE(box_.store().readers().keep(grant.slot, grant.generation));
  ASSERT_TRUE(box_.store().readers().keep(grant.slot, grant.generation));
  EXPECT_EQ(box_.filled().kept_bytes, StoreBox::kSlotBytes);
  box_.store().readers().let_go(grant.slot, grant.generation);
  EXPECT_EQ(box_.reserve(1, 2).status, status_of(GrantStatus::kNoSpace));
  box_.store().readers().let_go(grant.slot, grant.generation);
  EXPECT_EQ(box_.reserve(1, 2).status, status_of(GrantStatus::kGranted));
}

TEST_F(KeptSlotsTest, ADroppedSlotIsHiddenAndFreedAtItsRelease) {
  const protocol::Grant grant = box_.put(1, 1);
  ASSERT_TRUE(box_.store().readers().keep(grant.slot, grant.generation));
  box_.drop();
  EXPECT_FALSE(box_.find(1));
  box_.store().sweep();
  EXPECT_EQ(box_.reserve(1, 2).status, status_of(GrantStatus::kNoSpace));
  box_.store().readers().let_go(grant.slot, grant.generation);
  box_.store().sweep();
  EXPECT_EQ(box_.reserve(1, 2).status, status_of(GrantStatus::kGranted));
}

TEST_F(KeptSlotsTest, OnlyACommittedSlotOfThatGenerationIsKept) {
  const protocol::Grant grant = box_.reserve(1, 1);
  EXPECT_FALSE(box_.store().readers().keep(grant.slot, grant.generation));
  EXPECT_FALSE(box_.store().readers().keep(grant.slot + 1, grant.generation));
  box_.store().commit(1, {grant.slot, 0, grant.generation, 1});
  EXPECT_FALSE(box_.store().readers().keep(grant.slot, grant.generation + 1));
  box_.store().readers().let_go(grant.slot, grant.generation);  // never kept: no effect
  EXPECT_TRUE(box_.store().readers().keep(grant.slot, grant.generation));
  box_.store().readers().let_go(grant.slot, grant.generation + 1);
  EXPECT_EQ(box_.reserve(1, 2).status, status_of(GrantStatus::kNoSpace));
}

}  // namespace
}  // namespace larder::store::testing_support

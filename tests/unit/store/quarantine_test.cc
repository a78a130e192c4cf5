// No death leaks a slot, and no slot is reused while its writer may still write.
#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

using protocol::GrantStatus;

TEST(Quarantine, GrantsOfEndedSessionWaitForItsLock) {
  StoreBox box(2);
  box.add_session(1);
  box.add_session(2);
  const protocol::Grant left = box.reserve(1, 7);
  EXPECT_TRUE(box.store().sessions().end(1));
  const protocol::Grant again = box.reserve(2, 7);
  EXPECT_EQ(again.status, status_of(GrantStatus::kGranted))
      << "a quarantined slot does not block its key";
  EXPECT_NE(again.slot, left.slot);
  EXPECT_EQ(box.reserve(2, 8).status, status_of(GrantStatus::kNoSpace)) << "and is not handed on";
  EXPECT_EQ(box.filled().slots_quarantined, 1U);
  box.store().sessions().release_quarantine(1);
  EXPECT_EQ(box.reserve(2, 8).slot, left.slot);
}

TEST(Quarantine, HoldsOfEndedSessionAreFreedAtOnce) {
  StoreBox box(1);
  auto& region = box.add_session(1);
  box.add_session(2);
  StoreBox::hold(region, 0, box.put(1, 1));
  EXPECT_EQ(box.reserve(2, 2).status, status_of(GrantStatus::kNoSpace));
  EXPECT_FALSE(box.store().sessions().end(1));
  EXPECT_EQ(box.reserve(2, 2).status, status_of(GrantStatus::kGranted));
}

TEST(Quarantine, SilentSessionMayReturnItsSlot) {
  StoreBox box(3);
  auto& region = box.add_session(1);
  const protocol::Grant first = box.reserve(1, 1);
  const protocol::Grant second = box.reserve(1, 2);
  const protocol::Grant held = box.put(1, 3);
  StoreBox::hold(region, 0, held);
  box.store().sessions().set_silent(1, true);
  EXPECT_EQ(box.store().sessions().use_of(1).grants, 2U);
  box.add_session(2);
  const protocol::Grant other = box.reserve(2, 1);
  EXPECT_EQ(other.slot, held.slot) << "the holds of a silent session do not count";
  box.store().sessions().set_silent(1, false);
  box.store().commit(1, {first.slot, 0, first.generation, 1});
  EXPECT_FALSE(box.find(1)) << "no reader gets bytes of a silent writer";
  box.store().disown(1, {second.slot, 0, second.generation});
  EXPECT_EQ(box.store().sessions().use_of(1).grants, 0U);
  EXPECT_EQ(box.filled().slots_quarantined, 0U);
  EXPECT_EQ(box.free_slots(), 2U);
}

TEST(Quarantine, HoldsOfReturnedSessionCountAgain) {
  StoreBox box(1);
  auto& region = box.add_session(1);
  box.add_session(2);
  StoreBox::hold(region, 0, box.put(1, 1));
  box.store().sessions().set_silent(1, true);
  box.store().sessions().set_silent(1, false);
  EXPECT_EQ(box.reserve(2, 2).status, status_of(GrantStatus::kNoSpace));
  EXPECT_TRUE(box.find(1));
}

TEST(Quarantine, CommitByOtherSessionDoesNotFreeTheSlot) {
  StoreBox box(1);
  box.add_session(1);
  box.add_session(2);
  const protocol::Grant grant = box.reserve(1, 1);
  box.store().sessions().end(1);
  box.store().commit(2, {grant.slot, 0, grant.generation, 1});
  box.store().disown(2, {grant.slot, 0, grant.generation});
  EXPECT_EQ(box.filled().slots_quarantined, 1U);
}

}  // namespace
}  // namespace larder::store::testing_support

// The most that one engine may keep from the others, and for how long: granted and held bytes, the
// age of holds and grants, and the return of grants at a new attachment.
#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

using protocol::GrantStatus;
using protocol::SlotRef;

// the slot of a chunk of the box: its payload is half of it
constexpr std::uint64_t kSlot = StoreBox::kSlotBytes;

SlotRef ref_of(const protocol::Grant& grant) {
  return {grant.slot, 0, grant.generation};
}

// covers F-023
TEST(Caps, GrantedBytesOfASessionAreCappedUntilCommitOrDisown) {
  StoreBox box(8);
  box.add_session(1, {2 * kSlot, UINT64_MAX});
  box.add_session(2);
  const protocol::Grant first = box.reserve(1, 1);
  const protocol::Grant second = box.reserve(1, 2);
  EXPECT_EQ(box.reserve(1, 3).status, status_of(GrantStatus::kRefused));
  EXPECT_EQ(box.stats().refused_cap, 1U);
  EXPECT_EQ(box.reserve(2, 3).status, status_of(GrantStatus::kGranted))
      << "it is that session's cap alone";
  EXPECT_EQ(box.filled().granted_bytes, 3 * kSlot);
  box.store().commit(1, {first.slot, 0, first.generation, 1});
  EXPECT_EQ(box.reserve(1, 4).status, status_of(GrantStatus::kGranted));
  box.store().disown(1, ref_of(second));
  EXPECT_EQ(box.reserve(1, 5).status, status_of(GrantStatus::kGranted));
  EXPECT_EQ(box.reserve(1, 6).status, status_of(GrantStatus::kRefused));
}

TEST(Caps, QuarantinedBytesCountAsGranted) {
  StoreBox box(8);
  box.add_session(1, {2 * kSlot, UINT64_MAX});
  box.reserve(1, 1);
  box.reserve(1, 2);
  box.store().sessions().set_silent(1, true);
  box.store().sessions().set_silent(1, false);
  EXPECT_EQ(box.reserve(1, 3).status, status_of(GrantStatus::kRefused));
}

TEST(Caps, OneChunkMayAlwaysBeGranted) {
  StoreBox box(8);
  box.add_session(1, {1, UINT64_MAX});
  EXPECT_EQ(box.reserve(1, 1).status, status_of(GrantStatus::kGranted));
  EXPECT_EQ(box.reserve(1, 2).status, status_of(GrantStatus::kRefused));
}

// A session that holds `held` chunks of a box of four, with another session that wants room.
class Holds : public testing::Test {
 protected:
  void hold(std::uint64_t held, std::uint64_t cap_bytes) {
    region_ = &box_.add_session(1, {UINT64_MAX, cap_bytes});
    box_.add_session(2);
    for (std::uint64_t n = 0; n < 4; ++n) {
      grants_.push_back(box_.put(1, n));
      if (n < held) StoreBox::hold(*region_, static_cast<std::uint32_t>(n), grants_[n]);
    }
  }
  // Chunks that a second session can store anew: every chunk without a hold goes.
  std::uint64_t room() {
    std::uint64_t granted = 0;
    while (box_.reserve(2, 100 + granted).status == status_of(GrantStatus::kGranted)) ++granted;
    return granted;
  }

  StoreBox box_{4};
  protocol::SessionRegion* region_ = nullptr;
  std::vector<protocol::Grant> grants_;
};

// covers F-023
TEST_F(Holds, AboveTheCapAreIgnoredInTableOrder) {
  hold(3, 2 * kSlot);
  box_.store().sessions().watch_holds(0, false);
  EXPECT_EQ(box_.stats().holds_over_cap, 1U);
  EXPECT_EQ(box_.store().sessions().use_of(1).holds, 3U);
  EXPECT_EQ(box_.store().sessions().use_of(1).held_bytes, 2 * kSlot);
  EXPECT_EQ(room(), 2U);
  EXPECT_TRUE(box_.find(0));
  EXPECT_TRUE(box_.find(1));
  EXPECT_FALSE(box_.find(2));
}

TEST_F(Holds, CountAgainAfterOthersAreReleased) {
  hold(3, 2 * kSlot);
  box_.store().sessions().watch_holds(0, false);
  region_->holds[0].exchange(0);
  box_.store().sessions().watch_holds(100, false);
  EXPECT_EQ(room(), 2U);
  EXPECT_TRUE(box_.find(1));
  EXPECT_TRUE(box_.find(2));
}

TEST_F(Holds, OnOneSlotCountOnce) {
  hold(2, 2 * kSlot);
  StoreBox::hold(*region_, 2, grants_[0]);
  StoreBox::hold(*region_, 3, grants_[0]);
  box_.store().sessions().watch_holds(0, false);
  EXPECT_EQ(box_.store().sessions().use_of(1).held_bytes, 2 * kSlot);
  EXPECT_EQ(box_.stats().holds_over_cap, 0U);
}

TEST_F(Holds, AnnouncedForFutureGenerationsAreCapped) {
  hold(0, kSlot);
  const std::uint64_t next = box_.store().last_generation() + 1;
  for (std::uint32_t n = 0; n < 3; ++n)
    StoreBox::hold(*region_, n, {0, grants_[n].slot, next + n, 0});
  box_.store().sessions().watch_holds(0, false);
  for (std::uint32_t n = 0; n < 3; ++n) {
    const protocol::Grant grant = box_.put(2, 200 + n);
    ASSERT_TRUE(grant.slot == grants_[n].slot && grant.generation == next + n) << "as was foreseen";
  }
  box_.store().sessions().watch_holds(100, false);
  EXPECT_EQ(box_.store().sessions().use_of(1).held_bytes, kSlot);
  EXPECT_EQ(room(), 3U);
}

TEST_F(Holds, OnASlotAboveTheCapCountOnce) {
  hold(2, kSlot);
  StoreBox::hold(*region_, 2, grants_[1]);
  box_.store().sessions().watch_holds(0, false);
  EXPECT_EQ(room(), 3U);
}

// covers F-024
TEST_F(Holds, ExpireAtTheMaximumAge) {
  hold(4, UINT64_MAX);
  box_.store().sessions().watch_holds(1000, false);
  box_.store().sessions().watch_holds(1000 + protocol::kMaxHoldAgeMs, false);
  EXPECT_EQ(room(), 0U);
  region_->holds[3].exchange(0);
  StoreBox::hold(*region_, 4, grants_[3]);  // announced anew, in another place
  box_.store().sessions().watch_holds(1001 + protocol::kMaxHoldAgeMs, false);
  EXPECT_EQ(box_.stats().holds_expired, 3U);
  EXPECT_EQ(room(), 3U);
  EXPECT_TRUE(box_.find(3));
}

TEST_F(Holds, RestartTheirAgeAfterAPause) {
  hold(4, UINT64_MAX);
  box_.store().sessions().watch_holds(0, false);
  box_.store().sessions().watch_holds(10 * protocol::kMaxHoldAgeMs, true);
  EXPECT_EQ(box_.stats().holds_expired, 0U);
  EXPECT_EQ(room(), 0U);
}

// 255 full tables took up to 70 ms of every tick: the loop was held as long.
TEST(HoldsOfMany, AreScannedInSlices) {
  constexpr std::uint32_t kSessions = 40;
  StoreBox box(1);
  for (std::uint32_t number = 1; number <= kSessions; ++number) {
    protocol::SessionRegion& region = box.add_session(number);
    for (auto& hold : region.holds) hold.store(UINT64_MAX);
    region.holds_used.store(protocol::kMaxHolds);
  }
  const auto seen = [&box] {
    std::uint64_t places = 0;
    for (std::uint32_t number = 1; number <= kSessions; ++number)
      places += box.store().sessions().use_of(number).holds;
    return places;
  };
  std::uint64_t before = 0;
  for (int tick = 0; tick < 5; ++tick) {
    box.store().sessions().watch_holds(100 * tick, false);
    EXPECT_EQ(seen() - before, SessionBook::kPlacesATick) << "in tick " << tick;
    before = seen();
  }
  EXPECT_EQ(before, kSessions * protocol::kMaxHolds) << "each of them once";
  for (std::uint32_t number = 1; number <= kSessions; ++number)
    for (auto& hold : box.region(number).holds) hold.store(0);
  box.store().sessions().watch_holds(500, false);
  EXPECT_EQ(before - seen(), SessionBook::kPlacesATick) << "the next round begins at once";
  box.store().sessions().end(1);
  for (int tick = 6; tick < 11; ++tick) box.store().sessions().watch_holds(100 * tick, false);
  for (std::uint32_t number = 2; number <= kSessions; ++number)
    EXPECT_EQ(box.store().sessions().use_of(number).holds, 0U);
}

// A session with three grants that ended, and the next one of its engine.
class Reattach : public testing::Test {
 protected:
  Reattach() {
    box_.add_session(1);
    for (std::uint64_t n = 0; n < 3; ++n) grants_.push_back(box_.reserve(1, n));
    box_.store().sessions().end(1);
    box_.add_session(2, {2 * kSlot, UINT64_MAX});
  }
  StoreBox box_{4};
  std::vector<protocol::Grant> grants_;
};

TEST_F(Reattach, UnlistedGrantsAreFreedAtOnce) {
  const SlotRef listed = ref_of(grants_[1]);
  EXPECT_EQ(box_.store().sessions().succeed(2, 1, std::span(&listed, 1), true), 2U);
  EXPECT_EQ(box_.stats().grants_reclaimed, 2U);
  EXPECT_EQ(box_.filled().slots_quarantined, 1U);
  EXPECT_EQ(box_.free_slots(), 3U);
  box_.store().disown(2, listed);
  EXPECT_EQ(box_.filled().slots_quarantined, 0U)
      << "the new session says that the writer has stopped";
  box_.store().sessions().release_quarantine(1);
}

TEST_F(Reattach, CommitByTheNewSessionIsRefusedAndFreesTheSlot) {
  const SlotRef listed = ref_of(grants_[1]);
  box_.store().sessions().succeed(2, 1, std::span(&listed, 1), true);
  box_.store().commit(2, {listed.slot, 0, listed.generation, 1});
  EXPECT_EQ(box_.stats().refused_commit, 1U);
  EXPECT_FALSE(box_.find(1));
  EXPECT_EQ(box_.filled().slots_quarantined, 0U);
}

TEST_F(Reattach, IncompleteListFreesNoSlot) {
  EXPECT_EQ(box_.store().sessions().succeed(2, 1, {}, false), 0U);
  EXPECT_EQ(box_.filled().slots_quarantined, 3U);
}

TEST_F(Reattach, ListedSlotOfOtherGenerationIsFreed) {
  const SlotRef stale{grants_[1].slot, 0, grants_[1].generation - 1};
  EXPECT_EQ(box_.store().sessions().succeed(2, 1, std::span(&stale, 1), true), 3U);
}

TEST_F(Reattach, ListedGrantsCountForTheNewSession) {
  const SlotRef listed = ref_of(grants_[1]);
  box_.store().sessions().succeed(2, 1, std::span(&listed, 1), true);
  EXPECT_EQ(box_.store().sessions().use_of(2).grants, 1U);
  EXPECT_EQ(box_.reserve(2, 10).status, status_of(GrantStatus::kGranted));
  EXPECT_EQ(box_.reserve(2, 11).status, status_of(GrantStatus::kRefused));
  box_.store().sessions().release_quarantine(1);
  EXPECT_EQ(box_.reserve(2, 11).status, status_of(GrantStatus::kGranted));
}

TEST_F(Reattach, UnrelatedSessionInheritsNoGrant) {
  box_.add_session(3);
  box_.store().sessions().succeed(2, 1, {}, false);
  box_.store().disown(3, ref_of(grants_[0]));
  EXPECT_EQ(box_.filled().slots_quarantined, 3U);
}

TEST(Overdue, IncludesOldGrantsAndQuarantinedSlots) {
  StoreBox box(8);
  box.add_session(1);
  const protocol::Grant old = box.reserve(1, 1);
  const std::uint64_t generation = box.store().last_generation();
  const protocol::Grant young = box.reserve(1, 2);
  std::vector<SlotRef> slots;
  box.store().sessions().overdue(1, generation, slots);
  ASSERT_EQ(slots.size(), 1U);
  EXPECT_EQ(slots[0].slot, old.slot);
  EXPECT_TRUE(box.store().sessions().quarantine_grant(1, ref_of(young)));
  EXPECT_FALSE(box.store().sessions().quarantine_grant(1, ref_of(young)));
  slots.clear();
  box.store().sessions().overdue(1, generation, slots);
  EXPECT_EQ(slots.size(), 2U);
}

}  // namespace
}  // namespace larder::store::testing_support

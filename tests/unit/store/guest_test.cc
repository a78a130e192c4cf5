// A copy of another larderd's chunk leaves before all own chunks, until it was used twice.
#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

class Guest : public testing::Test {
 protected:
  Guest() {
    box_.add_session(1);
    box_.put(1, 1);
    box_.put(1, 2);
    const protocol::Grant grant = box_.store().promote(box_.key(kGuest), 4096, 4096);
    guest_ = {grant.slot, 0, grant.generation};
    EXPECT_TRUE(box_.store().promoted(guest_, box_.write(grant, kGuest), 1, 0, true));
    box_.put(1, 4);
  }
  void use() { box_.store().touch(guest_.slot, guest_.generation); }

  static constexpr std::uint64_t kGuest = 3;
  StoreBox box_{4};
  protocol::SlotRef guest_;
};

TEST_F(Guest, IsEvictedBeforeOwnChunks) {
  ASSERT_TRUE(box_.find(kGuest));
  box_.put(1, 5);
  EXPECT_FALSE(box_.find(kGuest));
  EXPECT_TRUE(box_.find(1) && box_.find(2) && box_.find(4) && box_.find(5));
}

TEST_F(Guest, IsStillEvictedFirstAfterOneUse) {
  use();
  box_.put(1, 5);
  EXPECT_FALSE(box_.find(kGuest));
}

TEST_F(Guest, BecomesAnOwnChunkAfterTwoUses) {
  use();
  use();
  box_.put(1, 5);
  EXPECT_TRUE(box_.find(kGuest));
  EXPECT_FALSE(box_.find(1));
}

TEST_F(Guest, HoldCountsAsAUse) {
  protocol::Grant grant{};
  grant.slot = guest_.slot;
  grant.generation = guest_.generation;
  StoreBox::hold(box_.region(1), 0, grant);
  box_.put(1, 5);
  box_.put(1, 6);
  ASSERT_TRUE(box_.find(kGuest));
  box_.region(1).holds[0].exchange(0);
  box_.put(1, 7);
  EXPECT_TRUE(box_.find(kGuest)) << "an own chunk by now";
}

TEST_F(Guest, ReusedGuestSlotHoldsAnOwnChunk) {
  box_.put(1, 5);
  box_.put(1, 6);
  EXPECT_TRUE(box_.find(5) && box_.find(6)) << "the coldest own chunk left";
  EXPECT_FALSE(box_.find(1));
}

}  // namespace
}  // namespace larder::store::testing_support

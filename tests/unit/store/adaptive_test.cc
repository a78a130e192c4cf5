#include "sidecar/store/adaptive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace larder::store {
namespace {

constexpr std::uint32_t kSlots = 300;

class AdaptiveTest : public ::testing::Test {
 protected:
  AdaptiveTest() {
    for (std::uint32_t n = 0; n < kSlots; ++n) table_.take();
  }
  void store(std::uint32_t slot, std::uint64_t name, std::uint32_t parent = kNoSlot) {
    policy_.stored(slot, name, parent);
    policy_.insert(slot, 0);
  }
  void use(std::uint32_t slot) {
    policy_.erase(slot, 0);
    policy_.used(slot);
    policy_.insert(slot, 0);
  }
  void evict(std::uint32_t slot, std::uint64_t name) {
    policy_.erase(slot, 0);
    policy_.evicted(slot, name);
  }
  // Chunks come by once each, and the ghosts say so; 0 to 9 are used again and again.
  void flood() {
    std::uint64_t name = 0;
    for (std::uint32_t slot = 0; slot < 100; ++slot) store(slot, name++);
    for (int round = 0; round < 400; ++round) {
      for (std::uint32_t slot = 0; slot < 10; ++slot) use(slot);
      for (std::uint32_t slot = 10; slot < 100; ++slot) {
        evict(slot, name - 90);
        store(slot, name++);
      }
    }
  }
  std::vector<std::uint32_t> victims(std::size_t most = kSlots, std::uint32_t size_class = 0) {
    std::vector<std::uint32_t> slots(most);
    slots.resize(policy_.first_victims(size_class, slots));
    return slots;
  }

  SlotTable table_{kSlots};
  Adaptive policy_{table_, kSlots};
};

TEST_F(AdaptiveTest, OfOneKindTheLeastRecentlyUsedLeavesFirst) {
  for (std::uint32_t slot = 0; slot < 4; ++slot) store(slot, 4 * slot);
  EXPECT_EQ(victims(), (std::vector<std::uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(victims(2), (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(policy_.first_own_victim(0), 0U);
  EXPECT_TRUE(victims(4, 1).empty());
  EXPECT_EQ(policy_.first_own_victim(1), kNoSlot);
}

TEST_F(AdaptiveTest, AChunkLeavesDirectlyBeforeTheOneAboveOfItsKind) {
  for (std::uint32_t slot = 0; slot < 3; ++slot) store(slot, 4 * slot);
  policy_.stored(3, 12, 1);
  policy_.insert_below(3, 1, 0);
  EXPECT_EQ(victims(), (std::vector<std::uint32_t>{0, 3, 1, 2}));
}

TEST_F(AdaptiveTest, GuestsLeaveFirst) {
  store(0, 0);
  table_.note(1).guest = 2;
  store(1, 4);
  EXPECT_EQ(victims(), (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(policy_.first_own_victim(0), 0U);
}

TEST_F(AdaptiveTest, AChunkThatJoinedTheKindOfAnotherLeavesBeforeIt) {
  store(0, 0);
  store(1, 4);
  for (int i = 0; i < 5; ++i) use(1);
  policy_.erase(1, 0);
  policy_.join(1, 0);
  policy_.insert_below(1, 0, 0);
  EXPECT_EQ(victims(), (std::vector<std::uint32_t>{1, 0}));
}

TEST_F(AdaptiveTest, ChunksOfAKindThatIsNotUsedAgainLeaveFirst) {
  flood();
  const std::vector<std::uint32_t> first = victims(90);
  EXPECT_GE(*std::ranges::min_element(first), 10U);
}

TEST_F(AdaptiveTest, UsesCountAcrossAnEviction) {
  flood();
  evict(0, 0);
  store(0, 0);
  const std::vector<std::uint32_t> first = victims(91);
  EXPECT_EQ(std::ranges::count(first, 0U), 0) << "as a new chunk it would leave before 1 to 9";
}

TEST_F(AdaptiveTest, EveryCandidateIsAVictimOnce) {
  std::mt19937 random(7);
  std::set<std::uint32_t> all[2];
  std::vector<std::uint64_t> names(kSlots);
  for (int step = 0; step < 20'000; ++step) {
    const auto slot = static_cast<std::uint32_t>(random() % kSlots);
    const std::uint32_t size_class = slot % 2;
    std::set<std::uint32_t>& of_size = all[size_class];
    if (!of_size.contains(slot)) {
      table_.note(slot).guest = random() % 4 == 0;
      policy_.stored(slot, names[slot] = random() % 1000, kNoSlot);
    } else {
      policy_.erase(slot, size_class);
      of_size.erase(slot);
      if (random() % 3 == 0) {
        policy_.evicted(slot, names[slot]);
        continue;
      }
      policy_.used(slot);
    }
    const std::uint32_t above = of_size.empty() ? slot : *of_size.begin();
    if (above != slot && table_.note(above).guest == table_.note(slot).guest)
      policy_.insert_below(slot, above, size_class);
    else
      policy_.insert(slot, size_class);
    of_size.insert(slot);
    if (step % 500 != 0) continue;
    for (const std::uint32_t number : {0U, 1U}) {
      const std::vector<std::uint32_t> found = victims(kSlots, number);
      ASSERT_EQ(std::set<std::uint32_t>(found.begin(), found.end()), all[number]);
      ASSERT_EQ(found.size(), all[number].size());
      ASSERT_TRUE(std::ranges::is_partitioned(
          found, [this](std::uint32_t n) { return table_.note(n).guest != 0; }));
    }
  }
}

}  // namespace
}  // namespace larder::store

// Demoted chunks are the next to leave memory, tail first, unless they are used in the meantime.
#include <algorithm>
#include <list>
#include <random>

#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

using Numbers = std::vector<std::uint64_t>;

class Demote : public testing::Test {
 protected:
  Demote() { box_.add_session(1); }
  // A chunk behind `parent` in its prompt; 0: the first.
  void put(std::uint64_t n, std::uint64_t parent = 0) {
    const protocol::Key key = box_.key(n);
    const protocol::BlockHash before = parent == 0 ? protocol::BlockHash{} : box_.key(parent).hash;
    protocol::Grant grant{};
    box_.store().reserve(1, key, std::span(&key.hash, 1), std::span(&grant, 1),
                         std::span(&before, 1));
    ASSERT_EQ(grant.status, 0U) << n;
    box_.store().commit(1, {grant.slot, 0, grant.generation, n});
  }
  protocol::ActCounts demote(const Numbers& numbers) {
    std::vector<protocol::BlockHash> hashes;
    for (const std::uint64_t n : numbers) hashes.push_back(box_.key(n).hash);
    return box_.store().families().demote(box_.handle(), hashes);
  }
  void use(std::uint64_t n) {
    const auto chunk = box_.find(n);
    box_.store().begin_uses();
    box_.store().touch(chunk->slot, chunk->generation);
  }
  Numbers left() {
    Numbers numbers;
    for (std::uint64_t n = 1; n < 100; ++n)
      if (box_.find(n)) numbers.push_back(n);
    return numbers;
  }
  void press(std::uint64_t chunks) {
    while (chunks-- > 0) put(++pressed_);
  }

  static constexpr std::uint64_t kSlots = 8;
  StoreBox box_{kSlots};
  std::uint64_t pressed_ = 1000;
};

// An old prompt of 1..4, and a new one of 11..14.
class DemotedPrompt : public Demote {
 protected:
  DemotedPrompt() {
    for (const std::uint64_t first : {1, 11})
      for (std::uint64_t n = first; n < first + 4; ++n) put(n, n == first ? 0 : n - 1);
  }
};

TEST_F(DemotedPrompt, LeavesTailFirstBeforeOlderChunks) {
  demote({11, 12, 13, 14});
  press(1);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 4, 11, 12, 13}));
  press(2);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 4, 11}));
  press(2);
  EXPECT_EQ(left(), (Numbers{1, 2, 3}));
}

TEST_F(DemotedPrompt, TailOfAPromptLeavesAlone) {
  demote({13, 14});
  press(3);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 11, 12}));
}

TEST_F(DemotedPrompt, UseOfTheTailMakesTheWholePromptOrdinary) {
  demote({11, 12, 13, 14});
  use(14);
  press(4);
  EXPECT_EQ(left(), (Numbers{11, 12, 13, 14}));
}

// A store behind a demoted chunk is a use of the chunk, and evicts no chunk of its own prompt.
TEST_F(DemotedPrompt, NextTurnEvictsOtherChunks) {
  demote({11, 12, 13, 14});
  for (const std::uint64_t n : {15, 16}) put(n, n - 1);
  EXPECT_EQ(left(), (Numbers{1, 2, 11, 12, 13, 14, 15, 16}));
}

TEST_F(DemotedPrompt, LastDemotedPromptLeavesFirst) {
  demote({1, 2, 3, 4});
  demote({11, 12, 13, 14});
  press(4);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 4}));
}

TEST_F(DemotedPrompt, PinnedChunksStay) {
  protocol::Key sibling = box_.sibling(11);
  box_.put(1, sibling);  // a whole family, which can be pinned; chunk 4 has left
  const protocol::BlockHash hash = box_.key(11).hash;
  ASSERT_EQ(box_.store().families().pin(box_.handle(), std::span(&hash, 1)).found, 1U);
  const protocol::ActCounts counts = demote({11, 12, 77});
  EXPECT_EQ(counts.found, 1U) << "11";
  EXPECT_EQ(counts.absent, 2U) << "half a family, and a missing one";
  press(4);
  EXPECT_TRUE(box_.find(11) && box_.has(sibling));
  EXPECT_FALSE(box_.find(12));
}

TEST_F(DemotedPrompt, CopiesOfOthersStillLeaveFirst) {
  const protocol::Grant grant = box_.store().promote(box_.key(21), 4096, 4096);
  ASSERT_EQ(grant.status, 0U);  // chunk 4 has left
  EXPECT_TRUE(
      box_.store().promoted({grant.slot, 0, grant.generation}, box_.write(grant, 21), 1, 0, true));
  demote({21, 11, 12, 13, 14});
  press(1);
  EXPECT_EQ(left(), (Numbers{1, 2, 3, 11, 12, 13, 14}));
}

TEST_F(Demote, OnlyAndUnknownChunksAreNoFault) {
  put(1);
  demote({1, 1, 2});
  EXPECT_EQ(left(), (Numbers{1}));
  EXPECT_EQ(box_.store().families().demote(999, std::vector<protocol::BlockHash>(3)).absent, 3U);
}

// Against a list of numbers, the next victim first.
TEST_F(Demote, AnyOrderOfUsesAgreesWithAList) {
  std::mt19937_64 random(36);
  std::list<std::uint64_t> order;
  for (int step = 0; step < 4'000; ++step) {
    const std::uint64_t n = 1 + random() % 16;
    const auto at = std::ranges::find(order, n);
    if (at == order.end()) {
      if (order.size() == kSlots) order.pop_front();
      put(n);
      order.push_back(n);
    } else if (random() % 2 == 0) {
      use(n);
      order.splice(order.end(), order, at);
    } else {
      demote({n});
      order.splice(order.begin(), order, at);
    }
    Numbers expected(order.begin(), order.end());
    std::ranges::sort(expected);
    ASSERT_EQ(left(), expected) << "step " << step;
  }
}

}  // namespace
}  // namespace larder::store::testing_support

// Chunks with the hint "keep" stay in memory in preference to others, for a time and up to a share.
#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

using Numbers = std::vector<std::uint64_t>;

// Room for 8 families of two chunks, which are 1 to 8; 2 of them may be kept.
class HintKeep : public testing::Test {
 protected:
  HintKeep() {
    box_.add_session(1);
    for (std::uint64_t n = 1; n <= kFamilies; ++n) put(n);
  }
  bool put(std::uint64_t n) {
    return box_.put(1, box_.key(n)).status == 0 && box_.put(1, box_.sibling(n)).status == 0;
  }
  std::vector<protocol::BlockHash> hashes(const Numbers& numbers) const {
    std::vector<protocol::BlockHash> all;
    for (const std::uint64_t n : numbers) all.push_back(box_.key(n).hash);
    return all;
  }
  protocol::ActCounts keep(const Numbers& numbers, std::uint32_t keep_s = 600) {
    return families().keep(box_.handle(), hashes(numbers), keep_s);
  }
  FamilyVerbs& families() { return box_.store().families(); }
  // Stores so many new families, each of which finds room.
  void flood(int count = 2 * kFamilies) {
    while (count-- > 0) EXPECT_TRUE(put(++flooded_));
  }
  Numbers left() const {
    Numbers numbers;
    for (std::uint64_t n = 1; n <= kFamilies; ++n)
      if (box_.has(box_.key(n)) && box_.has(box_.sibling(n))) numbers.push_back(n);
    return numbers;
  }
  std::uint64_t kept_slots() { return box_.filled().keep_slots; }

  static constexpr int kFamilies = 8;
  StoreBox box_{2 * kFamilies};
  std::uint64_t flooded_ = 1000;
};

TEST_F(HintKeep, KeptChunksOutliveAFlood) {
  EXPECT_EQ(keep({1, 5}).found, 2U);
  EXPECT_EQ(kept_slots(), 4U);
  EXPECT_EQ(box_.filled().keep_bytes, 4 * StoreBox::kSlotBytes);
  flood();
  EXPECT_EQ(left(), Numbers({1, 5}));
}

// covers F-454
TEST_F(HintKeep, ChunksOverTheShareAreOrdinaryOnes) {
  const protocol::ActCounts counts = keep({1, 2, 3, 77});
  EXPECT_EQ(counts.found, 2U);
  EXPECT_EQ(counts.refused, 1U);
  EXPECT_EQ(counts.absent, 1U);
  EXPECT_EQ(box_.stats().keep_refused, 1U);
  flood();
  EXPECT_EQ(left(), Numbers({1, 2}));
}

TEST_F(HintKeep, ShareOfZeroKeepsNothing) {
  box_.store().set_keep_percent(0);
  EXPECT_EQ(keep({1}).refused, 1U);
  flood();
  EXPECT_EQ(left(), Numbers());
}

TEST_F(HintKeep, EndsAfterItsTime) {
  box_.store().note_time(5'000);
  keep({1}, 60);
  keep({2}, 61);
  box_.store().note_time(64'999);
  EXPECT_EQ(kept_slots(), 4U);
  box_.store().note_time(65'000);
  EXPECT_EQ(kept_slots(), 2U);
  flood();
  EXPECT_EQ(left(), Numbers({2}));
  box_.store().note_time(66'000);
  EXPECT_EQ(kept_slots(), 0U);
  EXPECT_EQ(box_.filled().keep_bytes, 0U);
}

TEST_F(HintKeep, LongestOfTwoKeepsCounts) {
  keep({1, 2}, 60);
  keep({1}, 100);
  keep({2}, 10);
  box_.store().note_time(59'000);
  EXPECT_EQ(kept_slots(), 4U);
  box_.store().note_time(60'000);
  EXPECT_EQ(kept_slots(), 2U);
  flood();
  EXPECT_EQ(left(), Numbers({1}));
}

TEST_F(HintKeep, TimeHasAMaximum) {
  keep({1}, UINT32_MAX);
  keep({2}, 0);
  box_.store().note_time(1000);
  EXPECT_EQ(kept_slots(), 2U) << "a second at least";
  box_.store().note_time(protocol::kMaxKeepS * 1000ULL);
  EXPECT_EQ(kept_slots(), 0U);
}

TEST_F(HintKeep, OneTickEndsABoundedNumber) {
  constexpr std::uint64_t kMany = Evictor::kMostKeepsEnded + 10;
  StoreBox box(8 * kMany);
  box.add_session(1);
  std::vector<protocol::BlockHash> all;
  for (std::uint64_t n = 1; n <= kMany; ++n) {
    box.put(1, box.key(n));
    box.put(1, box.sibling(n));
    all.push_back(box.key(n).hash);
  }
  while (!all.empty()) {  // in slices
    const protocol::ActCounts done = box.store().families().keep(box.handle(), all, 1);
    all.erase(all.begin(), all.begin() + static_cast<long>(done.all()));
  }
  EXPECT_EQ(box.filled().keep_slots, 2 * kMany);
  box.store().note_time(2000);
  EXPECT_EQ(box.filled().keep_slots, 20U);
  box.store().note_time(2100);
  EXPECT_EQ(box.filled().keep_slots, 0U);
}

TEST_F(HintKeep, ReleaseEndsAKeepAndLeavesFirst) {
  keep({7, 8});
  EXPECT_EQ(families().demote(box_.handle(), hashes({8})).found, 1U);
  EXPECT_EQ(kept_slots(), 2U);
  flood(1);
  EXPECT_EQ(left(), Numbers({1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(HintKeep, UnpinEvictDropAndBadEndAKeep) {
  keep({1, 2});
  EXPECT_EQ(families().unpin(box_.handle(), hashes({1})).found, 1U);
  EXPECT_EQ(families().evict(box_.handle(), hashes({2})).found, 1U);
  EXPECT_EQ(kept_slots(), 0U);
  keep({3, 4});
  const auto chunk = box_.find(3);
  box_.store().report_bad({chunk->slot, 0, chunk->generation});
  EXPECT_EQ(kept_slots(), 2U) << "the rest of the family never hits";
  box_.drop();
  EXPECT_EQ(kept_slots(), 0U);
  EXPECT_EQ(box_.filled().keep_bytes, 0U);
}

TEST_F(HintKeep, PinsAreStronger) {
  keep({1});
  families().pin(box_.handle(), hashes({1, 2}));
  keep({2}, 1);
  EXPECT_EQ(kept_slots(), 0U);
  EXPECT_EQ(box_.filled().slots_pinned, 4U);
  box_.store().note_time(1'000'000);
  flood();
  EXPECT_EQ(left(), Numbers({1, 2}));
}

// covers F-455
TEST_F(HintKeep, NoPutFailsWhereAllIsKeptOrPinned) {
  box_.store().set_keep_percent(50);
  families().pin(box_.handle(), hashes({1, 2, 3, 4}));
  keep({5}, 30);
  keep({6, 7}, 20);
  keep({8}, 40);
  flood(1);
  EXPECT_EQ(left(), Numbers({1, 2, 3, 4, 5, 6, 8})) << "ends first, and is the tail of its prompt";
  families().pin(box_.handle(), hashes({1001}));
  flood(1);
  EXPECT_EQ(left(), Numbers({1, 2, 3, 4, 5, 6, 8})) << "the family of the first flood is ordinary";
}

TEST_F(HintKeep, HeldChunksOfAnEndedKeepStay) {
  box_.store().set_keep_percent(50);
  families().pin(box_.handle(), hashes({1, 2, 3, 4}));
  keep({5}, 10);
  keep({6, 7, 8}, 20);
  const auto held = box_.find(5);
  StoreBox::hold(box_.region(1), 0, {0, held->slot, held->generation, 0});
  flood(1);
  EXPECT_EQ(left(), Numbers({1, 2, 3, 4, 5, 6, 7}));
}

}  // namespace
}  // namespace larder::store::testing_support

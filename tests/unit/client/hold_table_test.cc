#include "shim/client/hold_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "tests/unit/client/no_memory.h"

namespace larder::client {
namespace {

// One committed slot, in an index made by hand.
class HoldTableTest : public testing::Test {
 protected:
  HoldTableTest()
      : index_(new (std::align_val_t(4096)) std::byte[protocol::index_sizes(4, 2).total_bytes]()),
        region_(std::make_unique<protocol::SessionRegion>()) {
    const auto sizes = protocol::index_sizes(4, 2);
    auto* header = reinterpret_cast<protocol::IndexHeader*>(index_.get());
    header->magic = protocol::kIndexMagic;
    header->version_major = protocol::kVersionMajor;
    header->entry_count = 4;
    header->bucket_count = 2;
    header->entries_offset = sizes.entries_offset;
    header->buckets_offset = sizes.buckets_offset;
    header->namespaces_offset = sizes.namespaces_offset;
    reader_ = *protocol::IndexReader::open(index_.get(), sizes.total_bytes);
    set_word(1, protocol::SlotState::kCommitted, 7);
  }
  void set_word(std::uint32_t slot, protocol::SlotState state, std::uint64_t generation) {
    auto* entries = reinterpret_cast<protocol::IndexEntry*>(
        index_.get() + protocol::index_sizes(4, 2).entries_offset);
    entries[slot].word = protocol::make_word(state, generation);
  }

  struct Free {
    void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t(4096)); }
  };
  std::unique_ptr<std::byte[], Free> index_;
  std::unique_ptr<protocol::SessionRegion> region_;
  protocol::IndexReader reader_;
};

TEST_F(HoldTableTest, AnnouncesBelowTheMarkAndReleases) {
  HoldTable holds(*region_);
  const auto place = holds.acquire(reader_, 1, 7);
  ASSERT_TRUE(place);
  EXPECT_LT(*place, region_->holds_used.load());
  EXPECT_EQ(region_->holds[*place].load(), protocol::make_hold(1, 7));
  holds.release(*place);
  EXPECT_EQ(region_->holds[*place].load(), 0U);
}

TEST_F(HoldTableTest, RemovedSlotIsNotHeld) {
  HoldTable holds(*region_);
  EXPECT_FALSE(holds.acquire(reader_, 1, 8));
  set_word(1, protocol::SlotState::kDying, 7);
  EXPECT_FALSE(holds.acquire(reader_, 1, 7));
  EXPECT_EQ(region_->holds[0].load(), 0U) << "the announcement is taken back";
}

// The word of an index of a dead larderd does not move: only `dead` tells that another larderd may
// reuse the slots.
// covers F-008
TEST_F(HoldTableTest, SupersededIndexAllowsNoHold) {
  HoldTable holds(*region_);
  reinterpret_cast<protocol::IndexHeader*>(index_.get())->dead =
      static_cast<std::uint64_t>(protocol::IndexRetirement::kSuperseded);
  EXPECT_FALSE(holds.acquire(reader_, 1, 7));
  EXPECT_EQ(region_->holds[0].load(), 0U);
}

TEST_F(HoldTableTest, FullTableRefusesHolds) {
  HoldTable holds(*region_);
  std::vector<std::uint32_t> places;
  for (std::uint32_t i = 0; i < protocol::kMaxHolds; ++i) {
    const auto place = holds.acquire(reader_, 1, 7);
    ASSERT_TRUE(place);
    places.push_back(*place);
  }
  EXPECT_FALSE(holds.acquire(reader_, 1, 7));
  holds.release(places[17]);
  EXPECT_EQ(holds.acquire(reader_, 1, 7), places[17]);
}

TEST_F(HoldTableTest, HoldsAreReleasedWithoutMemory) {
  HoldTable holds(*region_);
  std::vector<std::uint32_t> places;
  for (std::uint32_t i = 0; i < protocol::kMaxHolds; ++i)
    places.push_back(holds.acquire(reader_, 1, 7).value());
  testing_support::set_no_memory(true);
  for (const std::uint32_t place : places) holds.release(place);
  testing_support::set_no_memory(false);
  for (const std::uint32_t place : places) EXPECT_EQ(region_->holds[place].load(), 0U);
}

TEST_F(HoldTableTest, CarriedHoldStaysInTheNextTableUntilReleased) {
  auto next_region = std::make_unique<protocol::SessionRegion>(),
       last_region = std::make_unique<protocol::SessionRegion>();
  HoldTable holds(*region_);
  const auto next = std::make_shared<HoldTable>(*next_region),
             last = std::make_shared<HoldTable>(*last_region);
  const auto held_in = [](const protocol::SessionRegion& region) {
    std::size_t count = 0;
    for (std::uint64_t place = 0; place < region.holds_used; ++place)
      count += region.holds[place] == protocol::make_hold(1, 7);
    return count;
  };
  const auto before = holds.acquire(reader_, 1, 7);
  holds.carry_over(next);
  EXPECT_EQ(held_in(*next_region), 1U);
  const auto after = holds.acquire(reader_, 1, 7);
  EXPECT_EQ(held_in(*next_region), 2U) << "a hold in the earlier session counts as well";
  next->carry_over(last);
  EXPECT_EQ(held_in(*last_region), 2U);
  holds.release(*before);
  EXPECT_EQ(held_in(*region_) + held_in(*next_region) + held_in(*last_region), 3U);
  holds.carry_over(nullptr);  // that attempt to attach failed
  holds.carry_over(last);
  holds.release(*after);
  EXPECT_EQ(held_in(*region_), 0U);
  EXPECT_EQ(held_in(*last_region), 1U) << "of the one that `next` still has";
}

TEST_F(HoldTableTest, HoldIsCarriedOverTwoSessions) {
  auto next_region = std::make_unique<protocol::SessionRegion>(),
       last_region = std::make_unique<protocol::SessionRegion>();
  HoldTable holds(*region_);
  const auto next = std::make_shared<HoldTable>(*next_region),
             last = std::make_shared<HoldTable>(*last_region);
  holds.carry_over(next);
  next->carry_over(last);
  const auto place = holds.acquire(reader_, 1, 7);
  EXPECT_EQ(last_region->holds[0], protocol::make_hold(1, 7));
  holds.release(*place);
  EXPECT_EQ(last_region->holds[0], 0U);
}

TEST_F(HoldTableTest, HoldStaysVisibleDuringCarryOver) {
  for (int round = 0; round < 200; ++round) {
    auto next_region = std::make_unique<protocol::SessionRegion>();
    HoldTable holds(*region_);
    const auto next = std::make_shared<HoldTable>(*next_region);
    std::vector<std::uint32_t> places;
    std::jthread engine([&] {
      for (int i = 0; i < 50; ++i) places.push_back(*holds.acquire(reader_, 1, 7));
    });
    holds.carry_over(next);
    engine.join();
    EXPECT_EQ(next_region->holds_used, 50U);
    for (const std::uint32_t place : places) holds.release(place);
    for (std::uint64_t place = 0; place < 50; ++place) EXPECT_EQ(next_region->holds[place], 0U);
  }
}

}  // namespace
}  // namespace larder::client

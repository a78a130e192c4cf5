// Extents: every page of the arena in exactly one piece, every slot in one place, and room for any
// size.
#include "sidecar/store/slot_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "shim/protocol/limits.h"

namespace larder::store {
namespace {

constexpr std::uint64_t kPage = protocol::kSlotAlignBytes;

struct Place {
  std::uint64_t offset_bytes, size_bytes;
  bool candidate = false;
};

class ArenaModel {
 public:
  ArenaModel(std::uint64_t pages, std::uint64_t numbers)
      : pages_(pages), table_(numbers), arena_(pages * kPage, table_) {}

  void touch_pages(std::uint64_t pages) {
    touched_ = std::max(touched_, pages);
    arena_.set_touched_bytes(pages * kPage);
  }
  // The slot's number, or kNoSlot.
  std::uint32_t take(std::uint64_t slot_pages) {
    const SlotArena::Slot slot = arena_.take(arena_.size_class(slot_pages * kPage));
    if (slot.number == kNoSlot) return kNoSlot;
    EXPECT_FALSE(places_.contains(slot.number)) << "a number given out twice";
    places_[slot.number] = {slot.offset_bytes, slot_pages * kPage};
    return slot.number;
  }
  void give(std::uint32_t slot) {
    if (places_.at(slot).candidate) arena_.erase_candidate(slot);
    arena_.give(slot, places_.at(slot).offset_bytes);
    places_.erase(slot);
  }
  void make_candidate(std::uint32_t slot) {
    arena_.insert_candidate(slot);
    places_.at(slot).candidate = true;
  }
  // REQUIRES: a candidate.
  void use(std::uint32_t slot) {
    arena_.erase_candidate(slot);
    arena_.insert_candidate(slot);
  }
  void check() const {
    std::uint64_t at = 0, free = 0, in_extents = 0;
    bool before_free = false;
    for (const auto& [start, piece] : arena_.map().pieces()) {
      ASSERT_EQ(start, at) << "a gap, or two pieces over each other";
      const bool is_free = piece.extent == ArenaMap::kNoExtent;
      ASSERT_FALSE(is_free && before_free) << "two free neighbours";
      before_free = is_free;
      at += piece.pages;
      (is_free ? free : in_extents) += piece.pages;
    }
    ASSERT_EQ(at, touched_);
    ASSERT_EQ(free * kPage, arena_.unused_bytes());
    std::uint64_t slots = 0, used = 0;
    for (const SlotArena::ClassView& view : arena_.classes()) {
      slots += view.slots * view.slot_bytes;
      used += view.used;
    }
    ASSERT_EQ(slots, in_extents * kPage) << "an extent is whole slots";
    ASSERT_EQ(used, places_.size());
    check_places();
  }
  std::vector<std::uint32_t> taken() const {
    std::vector<std::uint32_t> slots;
    for (const auto& [slot, place] : places_) slots.push_back(slot);
    return slots;
  }
  bool is_candidate(std::uint32_t slot) const { return places_.at(slot).candidate; }
  SlotArena& arena() { return arena_; }
  SlotTable& table() { return table_; }
  std::uint64_t pages() const { return pages_; }

 private:
  void check_places() const {
    std::map<std::uint64_t, std::uint64_t> by_offset;
    for (const auto& [slot, place] : places_) by_offset[place.offset_bytes] = place.size_bytes;
    ASSERT_EQ(by_offset.size(), places_.size());
    std::uint64_t end = 0;
    for (const auto& [offset, size] : by_offset) {
      ASSERT_GE(offset, end) << "two slots over each other";
      end = offset + size;
      ASSERT_LE(end, touched_ * kPage);
    }
  }

  std::uint64_t pages_, touched_ = 0;
  SlotTable table_;
  SlotArena arena_;
  std::map<std::uint32_t, Place> places_;
};

TEST(SlotArena, OnlyPopulatedPagesAreAllocated) {
  ArenaModel model(100, 100);
  EXPECT_EQ(model.take(10), kNoSlot);
  model.touch_pages(25);
  EXPECT_NE(model.take(10), kNoSlot);
  EXPECT_NE(model.take(10), kNoSlot);
  EXPECT_EQ(model.take(10), kNoSlot);
  model.touch_pages(40);
  EXPECT_NE(model.take(10), kNoSlot) << "the rest of the first step and the second one";
  EXPECT_NE(model.take(10), kNoSlot);
  EXPECT_EQ(model.take(10), kNoSlot);
  model.check();
}

TEST(SlotArena, EmptyExtentIsReusedForAnotherSize) {
  ArenaModel model(100, 200);
  model.touch_pages(100);
  std::vector<std::uint32_t> slots;
  for (std::uint32_t slot = model.take(3); slot != kNoSlot; slot = model.take(3))
    slots.push_back(slot);
  EXPECT_EQ(slots.size(), 33U);
  EXPECT_EQ(model.take(50), kNoSlot);
  for (const std::uint32_t slot : slots) model.give(slot);
  model.check();
  EXPECT_NE(model.take(50), kNoSlot);
  EXPECT_NE(model.take(50), kNoSlot);
  model.check();
}

TEST(SlotArena, UnallocatedPlacesAreReclaimed) {
  ArenaModel model(128 * 32, 10'000);  // long extents have 32 pages
  model.touch_pages(10 * 32);
  std::uint64_t sizes = 0;
  for (const std::uint64_t size : {1, 2, 4, 8, 16, 32, 31, 30, 29, 28})
    sizes += model.take(size) != kNoSlot;
  EXPECT_EQ(sizes, 10U);
  EXPECT_LT(model.arena().unused_bytes(), 20 * kPage);
  EXPECT_NE(model.take(20), kNoSlot) << "an extent kept unused slots";
  model.check();
}

TEST(SlotArena, ExhaustedNumbersAreHandled) {
  ArenaModel model(100, 5);
  model.touch_pages(100);
  for (int i = 0; i < 5; ++i) EXPECT_NE(model.take(1), kNoSlot);
  EXPECT_EQ(model.take(1), kNoSlot);
  EXPECT_EQ(model.take(7), kNoSlot);
  model.check();
  model.give(0);
  EXPECT_EQ(model.take(7), 0U);
  model.check();
}

TEST(SlotArena, ColdestWindowIsDrainedIntoContiguousSpace) {
  ArenaModel model(128, 1000);
  model.touch_pages(128);
  std::vector<std::uint32_t> slots;
  for (int i = 0; i < 64; ++i) slots.push_back(model.take(2));  // an extent each
  for (const std::uint32_t slot : slots) model.make_candidate(slot);
  for (std::size_t i = 0; i < 64; ++i)
    if (i < 20 || i >= 25) model.use(slots[i]);
  const std::uint32_t large = model.arena().size_class(10 * kPage);
  const auto window = model.arena().coldest_window(large, 1000);
  ASSERT_TRUE(window);
  EXPECT_EQ(window->range.begin, 40U);
  EXPECT_EQ(window->range.end, 50U);
  model.arena().drain(*window);
  for (std::size_t i = 20; i < 24; ++i) model.give(slots[i]);
  EXPECT_EQ(model.take(2), kNoSlot) << "a drained extent is kept for the larger size";
  EXPECT_TRUE(model.arena().draining());
  model.give(slots[24]);
  EXPECT_FALSE(model.arena().draining());
  EXPECT_NE(model.take(10), kNoSlot);
  model.check();
}

TEST(SlotArena, ExtentWithUnevictableSlotIsNotDrained) {
  ArenaModel model(128, 1000);
  model.touch_pages(128);
  std::vector<std::uint32_t> slots;
  for (int i = 0; i < 64; ++i) slots.push_back(model.take(2));
  for (std::size_t i = 0; i < 64; ++i)
    if (i % 4 != 0) model.make_candidate(slots[i]);  // each fourth is being written
  EXPECT_FALSE(model.arena().coldest_window(model.arena().size_class(10 * kPage), 1000));
  EXPECT_TRUE(model.arena().coldest_window(model.arena().size_class(6 * kPage), 1000));
  model.arena().avoid(slots[1]);
  const auto window = model.arena().coldest_window(model.arena().size_class(6 * kPage), 1000);
  ASSERT_TRUE(window);
  EXPECT_GE(window->range.begin, 8U);
}

TEST(SlotArena, AbandonedDrainKeepsEverySlot) {
  ArenaModel model(128, 1000);
  model.touch_pages(128);
  std::vector<std::uint32_t> slots;
  for (int i = 0; i < 64; ++i) slots.push_back(model.take(2));
  for (const std::uint32_t slot : slots) model.make_candidate(slot);
  model.arena().drain(*model.arena().coldest_window(model.arena().size_class(10 * kPage), 1000));
  model.give(slots[0]);
  model.arena().stop_draining();
  model.check();
  EXPECT_NE(model.take(2), kNoSlot);
  EXPECT_EQ(model.take(2), kNoSlot);
}

void random_step(ArenaModel& model, std::mt19937_64& random) {
  static constexpr std::uint64_t kSizes[] = {1, 3, 7, 20, 36, 80};
  const std::vector<std::uint32_t> taken = model.taken();
  const std::uint32_t any = taken.empty() ? kNoSlot : taken[random() % taken.size()];
  switch (random() % 10) {
    case 0:
    case 1:
    case 2:
    case 3: model.take(kSizes[random() % 6]); return;
    case 4:
    case 5:
      if (any != kNoSlot) model.give(any);
      return;
    case 6:
    case 7:
      if (any != kNoSlot && !model.is_candidate(any)) model.make_candidate(any);
      return;
    case 8:
      if (any != kNoSlot && model.is_candidate(any)) model.use(any);
      return;
    default: break;
  }
  if (model.arena().draining()) {
    if (random() % 4 == 0) model.arena().stop_draining();
    return;
  }
  const std::uint32_t size = model.arena().size_class(kSizes[random() % 6] * kPage);
  auto window = random() % 2 == 0 ? model.arena().coldest_window(size, 100)
                                  : model.arena().scattered_window(size);
  if (!window) return;
  std::vector<std::uint32_t> slots(1000);
  slots.resize(model.arena().slots_in(window->range, slots));
  model.arena().drain(*window);
  for (const std::uint32_t slot : slots) {
    ASSERT_TRUE(model.is_candidate(slot)) << "a window with a slot that may not go";
    if (random() % 8 != 0) model.give(slot);
  }
}

TEST(SlotArenaModel, EveryPageIsOwnedOnceAfterRandomOperations) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    ArenaModel model(2000, 300);
    for (int i = 0; i < 5000; ++i) {
      SCOPED_TRACE("step " + std::to_string(i));
      if (i % 100 == 0) model.touch_pages(static_cast<std::uint64_t>(std::min(2000, 100 + i)));
      random_step(model, random);
      model.check();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace larder::store

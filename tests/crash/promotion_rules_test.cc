// Chunks that larderd promoted from a tier and keeps, with an engine stopped between its look-up
// and its hold, and a device that keeps a slot: docs/design/architecture.md section 4, "Load".
// tests/mutation/mutations.toml names the line that each test needs.
#include <gtest/gtest.h>

#include <future>

#include "shim/client/hold_table.h"
#include "tests/crash/point_page.h"
#include "tests/unit/tiering/promoter_fixture.h"

namespace larder::tiering::testing_support {
namespace {

class PromotionRules : public testing::Test {
 protected:
  PromotionRules() : holds_(box_.memory.add_session(kEngine)) {
    crash::announce_in(&page_);
    box_.add_stranger(kStranger);
  }
  ~PromotionRules() override {
    page_.disarm();
    crash::announce_in(nullptr);
  }

  void fetch_one() {
    box_.fetch(kRequest, {1});
    box_.finish_reads();
    ASSERT_EQ(box_.told(kRequest), "1 all");
  }
  // The engine's next step after FETCHED, stopped before the announcement of the hold.
  std::future<bool> look_up_and_stop() {
    page_.stop_at("hold_place_taken");
    auto held = std::async(std::launch::async, [this] {
      const auto seen = box_.memory.find(1);
      return seen && holds_.acquire(box_.memory.reader(), seen->slot, seen->generation).has_value();
    });
    EXPECT_TRUE(page_.await("hold_place_taken"));
    return held;
  }

  static constexpr store::SessionNumber kEngine = 1, kStranger = 2;
  static constexpr std::uint32_t kRequest = 7;
  static constexpr std::uint64_t kSlots = 8;  // of which two, one family, may be kept
  crash::PointPage& page_ = crash::PointPage::make();
  PromoterBox box_{kSlots};
  client::HoldTable holds_;
};

TEST_F(PromotionRules, PromotedChunkIsKeptUntilItsEngineHoldsIt) {
  box_.put_below(1);
  fetch_one();
  auto held = look_up_and_stop();
  EXPECT_EQ(box_.grants(kSlots), kSlots - 2) << "evicted under the engine";
  page_.go("hold_place_taken");
  EXPECT_TRUE(held.get());
}

TEST_F(PromotionRules, ChunkAlreadyInMemoryIsKeptToo) {
  for (const protocol::Key& key : box_.family(1)) box_.memory.put(kStranger, key);
  fetch_one();
  auto held = look_up_and_stop();
  EXPECT_EQ(box_.grants(kSlots), kSlots - 2) << "evicted under the engine";
  page_.go("hold_place_taken");
  EXPECT_TRUE(held.get());
}

TEST_F(PromotionRules, EndedFetchKeepsHeldChunks) {
  box_.put_below(1);
  fetch_one();
  auto held = look_up_and_stop();
  box_.promotions.end(kEngine, kRequest);
  EXPECT_EQ(box_.grants(kSlots), kSlots) << "kept for nobody";
  page_.go("hold_place_taken");
  EXPECT_FALSE(held.get());
}

// covers F-149
TEST_F(PromotionRules, EndedSessionEndsItsFetches) {
  box_.put_below(1);
  fetch_one();
  auto held = look_up_and_stop();
  box_.promotions.end_session(kEngine);
  EXPECT_EQ(box_.grants(kSlots), kSlots);
  page_.go("hold_place_taken");
  EXPECT_FALSE(held.get());
}

// covers F-149
TEST_F(PromotionRules, FetchNeverEndedExpiresAfterAMinute) {
  box_.put_below(1);
  fetch_one();
  auto held = look_up_and_stop();
  box_.clock.advance_ms(protocol::kMaxHoldAgeMs);
  box_.promotions.tick(false);
  EXPECT_EQ(box_.grants(kSlots - 2), kSlots - 2);
  EXPECT_EQ(box_.grants(1), 0U);
  box_.clock.advance_ms(1);
  box_.promotions.tick(false);
  EXPECT_EQ(box_.grants(2), 2U);
  page_.go("hold_place_taken");
  EXPECT_FALSE(held.get());
}

// The deadline of the read is over and the device still writes: the next user of that slot would
// find other bytes.
// covers F-147
TEST_F(PromotionRules, SlotInUseByTheDeviceIsNotReused) {
  box_.put_below(1);
  box_.fetch(kRequest, {1});
  box_.tier.finish_one({Code::kDeadlineExceeded, ""}, true);
  box_.tier.finish_one({Code::kDeadlineExceeded, ""}, true);
  box_.turn();
  EXPECT_EQ(box_.told(kRequest), "0 failed");
  EXPECT_EQ(box_.grants(kSlots), kSlots - 2) << "handed on under the device";
  box_.tier.release();
  box_.turn();
  EXPECT_EQ(box_.grants(kSlots), 2U);
}

// covers F-147
TEST_F(PromotionRules, SlotDroppedDuringDeviceReadIsNotReused) {
  box_.put_below(1);
  box_.fetch(kRequest, {1});
  box_.memory.drop(box_.memory.handle());
  box_.memory.store().sweep();
  EXPECT_EQ(box_.grants(kSlots), kSlots - 2) << "handed on under the device";
  box_.finish_reads();
  EXPECT_EQ(box_.told(kRequest), "0 absent");
  EXPECT_FALSE(box_.memory.find(1)) << "dropped, and found again";
  EXPECT_EQ(box_.grants(kSlots), 2U);
}

}  // namespace
}  // namespace larder::tiering::testing_support

// SessionBook over a ChunkTable: from the grant to its end, for every end of the session.
#include "sidecar/store/session_book.h"

#include <algorithm>
#include <random>

#include "tests/unit/store/parts_fixture.h"

namespace larder::store::testing_support {
namespace {

using protocol::SlotState;

class SessionBookTest : public testing::Test {
 protected:
  std::uint32_t grant(SessionNumber session) {
    const SlotArena::Slot slot = box_.take();
    EXPECT_NE(slot.number, kNoSlot);
    box_.grant(slot, box_.key(++keys_), session);
    book_.take_in(book_.at(session), slot.number);
    return slot.number;
  }
  SessionBook::Session* owner(SessionNumber session, std::uint32_t slot) {
    return book_.owner(session, slot, box_.chunks().index().generation(slot));
  }
  stats::Stats filled() const {
    stats::Stats stats;
    book_.fill(stats);
    return stats;
  }

  PartsBox parts_{64};
  ChunkBox& box_ = parts_.box;
  SessionBook& book_ = parts_.sessions;
  std::uint64_t keys_ = 0;
};

TEST_F(SessionBookTest, TracksGrantsUntilQuarantineEnds) {
  const std::uint32_t slot = grant(1);
  EXPECT_EQ(filled().slots_granted, 1U);
  EXPECT_TRUE(book_.granted_chunk(1, box_.ref(slot)));
  EXPECT_TRUE(book_.end(1)) << "a grant is left";
  EXPECT_EQ(box_.state(slot), SlotState::kQuarantined);
  EXPECT_FALSE(book_.granted_chunk(1, box_.ref(slot)));
  EXPECT_EQ(box_.chunks().index().find(box_.key(keys_)), kNoSlot)
      << "the key is free for other sessions";
  EXPECT_EQ(filled().slots_granted, 0U);
  EXPECT_EQ(filled().slots_quarantined, 1U);
  book_.release_quarantine(1);
  EXPECT_EQ(box_.state(slot), SlotState::kFree);
  EXPECT_EQ(filled().slots_quarantined, 0U);
  EXPECT_EQ(box_.free_slots(), 64U);
  EXPECT_FALSE(book_.contains(1));
}

TEST_F(SessionBookTest, SuccessorOwnsTheGrantsOfThePreviousSession) {
  const std::uint32_t written = grant(1), forgotten = grant(1);
  book_.end(1);
  book_.add(2, parts_.region());
  EXPECT_EQ(owner(2, written), nullptr);
  const protocol::SlotRef still_written = box_.ref(written);
  EXPECT_EQ(book_.succeed(2, 1, std::span(&still_written, 1), true), 1U);
  EXPECT_EQ(box_.state(forgotten), SlotState::kFree);
  EXPECT_EQ(owner(2, written), &book_.at(1));
  EXPECT_EQ(book_.inherited(2).slots, 1U);
  EXPECT_EQ(book_.inherited(2).bytes, ChunkBox::kSlotBytes);
  book_.give_back(book_.at(1), written);
  EXPECT_EQ(book_.inherited(2).slots, 0U);
  EXPECT_EQ(box_.free_slots(), 64U);
}

TEST_F(SessionBookTest, FirstGrantOfAnySizeIsWithinTheCap) {
  const SessionBook::Inherited none;
  SessionBook::Session session;
  session.caps.granted_bytes = 10;
  EXPECT_TRUE(SessionBook::may_take(session, none, 100));
  session.granted_bytes = 4;
  EXPECT_TRUE(SessionBook::may_take(session, none, 6));
  EXPECT_FALSE(SessionBook::may_take(session, none, 7));
  EXPECT_FALSE(SessionBook::may_take(session, {0, 1}, 6));
  session.quarantined.count = protocol::kMaxGrants;
  EXPECT_FALSE(SessionBook::may_take(session, none, 1));
}

TEST_F(SessionBookTest, SumsAgreeAfterRandomOperations) {
  std::mt19937 random(7);
  std::map<std::uint32_t, bool> slots;  // whether quarantined
  for (int i = 0; i < 3000; ++i) {
    if (slots.size() < 32 && random() % 2 == 0) {
      slots[grant(1)] = false;
    } else if (!slots.empty()) {
      const auto one =
          std::next(slots.begin(), static_cast<std::ptrdiff_t>(random() % slots.size()));
      SessionBook::Session* session = owner(1, one->first);
      ASSERT_NE(session, nullptr);
      if (!one->second && random() % 2 == 0) {
        book_.quarantine(*session, one->first);
        one->second = true;
      } else {
        book_.give_back(*session, one->first);
        slots.erase(one);
      }
    }
    const auto quarantined = static_cast<std::uint64_t>(
        std::ranges::count_if(slots, [](const auto& slot) { return slot.second; }));
    ASSERT_EQ(filled().slots_quarantined, quarantined);
    ASSERT_EQ(filled().slots_granted, slots.size() - quarantined);
    ASSERT_EQ(book_.use_of(1).granted_bytes, slots.size() * ChunkBox::kSlotBytes);
    ASSERT_EQ(box_.free_slots(), 64 - slots.size());
    ASSERT_EQ(box_.opened().slots, slots.size() - quarantined);
  }
}

}  // namespace
}  // namespace larder::store::testing_support

// The word of a slot and the hold on it, with the reader or the sidecar stopped between two
// instructions: docs/design/architecture.md section 4, "The word", "Load". Reader and sidecar are
// threads of this process. tests/mutation/mutations.toml names the line that each test needs.
#include <gtest/gtest.h>

#include <future>

#include "shim/client/hold_table.h"
#include "tests/crash/point_page.h"
#include "tests/unit/store/store_fixture.h"

namespace larder::store::testing_support {
namespace {

using protocol::GrantStatus;

class WordRules : public testing::Test {
 protected:
  WordRules() {
    crash::announce_in(&page_);
    box_.add_session(kWriter);
    box_.put(kWriter, 1);
    seen_ = *box_.find(1);
  }
  ~WordRules() override {
    page_.disarm();
    crash::announce_in(nullptr);
  }

  // Stores the chunk that takes the one slot; another key if the slot has one already.
  bool replaced_by(std::uint64_t key) {
    return box_.put(kWriter, key).status == status_of(GrantStatus::kGranted);
  }
  std::optional<std::uint32_t> hold_what_was_seen() {
    return holds_.acquire(box_.reader(), seen_.slot, seen_.generation);
  }

  static constexpr SessionNumber kWriter = 1, kReader = 2;
  crash::PointPage& page_ = crash::PointPage::make();
  StoreBox box_{1};
  client::HoldTable holds_{box_.add_session(kReader)};
  protocol::EntryView seen_;
};

TEST_F(WordRules, EntryReadAcrossReplacementIsAMiss) {
  page_.stop_at("word_read");
  auto found = std::async(std::launch::async, [this] { return box_.find(1); });
  ASSERT_TRUE(page_.await("word_read"));
  ASSERT_TRUE(replaced_by(2));
  ASSERT_TRUE(replaced_by(1));  // the same key in the same slot, with another root and generation
  page_.go("word_read");
  const auto view = found.get();
  const auto now = box_.find(1);
  ASSERT_TRUE(view && now);
  EXPECT_NE(now->generation, seen_.generation);
  EXPECT_EQ(view->generation, now->generation)
      << "the generation of one life, the fields of another";
}

TEST_F(WordRules, HoldAnnouncedTooLateIsRefused) {
  page_.stop_at("hold_place_taken");
  auto held = std::async(std::launch::async, [this] { return hold_what_was_seen(); });
  ASSERT_TRUE(page_.await("hold_place_taken"));
  ASSERT_TRUE(replaced_by(2));
  page_.go("hold_place_taken");
  EXPECT_FALSE(held.get()) << "believes to hold a gone chunk";
}

TEST_F(WordRules, HoldAppliesToOneGeneration) {
  page_.stop_at("hold_place_taken");
  auto held = std::async(std::launch::async, [this] { return hold_what_was_seen(); });
  ASSERT_TRUE(page_.await("hold_place_taken"));
  ASSERT_TRUE(replaced_by(2));
  ASSERT_TRUE(replaced_by(1));
  page_.go("hold_place_taken");
  EXPECT_FALSE(held.get()) << "the slot is committed again, with another root";
  EXPECT_TRUE(replaced_by(3)) << "and a hold that was taken back keeps no slot";
}

TEST_F(WordRules, AnnouncedHoldKeepsTheSlot) {
  page_.stop_at("hold_announced");
  auto held = std::async(std::launch::async, [this] { return hold_what_was_seen(); });
  ASSERT_TRUE(page_.await("hold_announced"));
  EXPECT_FALSE(replaced_by(2)) << "handed on under a hold";
  page_.go("hold_announced");
  EXPECT_TRUE(held.get());
  EXPECT_EQ(box_.find(1)->generation, seen_.generation);
}

TEST_F(WordRules, HoldAfterTheVictimScanIsRefused) {
  page_.stop_at("victims_scanned");
  auto replaced = std::async(std::launch::async, [this] { return replaced_by(2); });
  ASSERT_TRUE(page_.await("victims_scanned"));
  EXPECT_FALSE(hold_what_was_seen()) << "holds a slot that is about to be handed on";
  EXPECT_FALSE(box_.find(1));
  page_.go("victims_scanned");
  EXPECT_TRUE(replaced.get());
}

TEST_F(WordRules, HoldBetweenDyingAndScanIsRefusedAndKeepsTheSlotMeanwhile) {
  page_.stop_at("victims_dying");
  page_.stop_at("hold_announced");
  auto replaced = std::async(std::launch::async, [this] { return replaced_by(2); });
  ASSERT_TRUE(page_.await("victims_dying"));
  auto held = std::async(std::launch::async, [this] { return hold_what_was_seen(); });
  ASSERT_TRUE(page_.await("hold_announced"));
  page_.go("victims_dying");
  EXPECT_FALSE(replaced.get()) << "the sidecar has seen the hold";
  page_.go("hold_announced");
  EXPECT_TRUE(held.get()) << "and taken its word back, so that the reader may read";
}

// Dropped chunks wait for their readers, like evicted ones.
TEST_F(WordRules, DroppedSlotIsNotReusedWhileHeld) {
  page_.stop_at("hold_announced");
  auto held = std::async(std::launch::async, [this] { return hold_what_was_seen(); });
  ASSERT_TRUE(page_.await("hold_announced"));
  box_.drop(box_.handle());
  EXPECT_FALSE(replaced_by(2));
  page_.go("hold_announced");
  EXPECT_FALSE(held.get()) << "dying: it is not read any more";
  box_.store().sweep();
  EXPECT_TRUE(replaced_by(2));
}

// Two shards of one block hash in an arena of two slots.
class FamilyRules : public testing::Test {
 protected:
  FamilyRules() {
    crash::announce_in(&page_);
    box_.add_session(kWriter);
    put_family(1);
  }
  ~FamilyRules() override {
    page_.disarm();
    crash::announce_in(nullptr);
  }
  protocol::Key shard(std::uint64_t number, std::uint16_t shard) const {
    protocol::Key key = box_.key(number);
    key.shard = shard;
    return key;
  }
  bool put_one(const protocol::Key& key) {
    const protocol::Grant grant = box_.reserve(kWriter, key);
    if (grant.status != 0) return false;
    box_.store().commit(kWriter, {grant.slot, 0, grant.generation, box_.write(grant, key.shard)});
    return true;
  }
  void put_family(std::uint64_t number) {
    ASSERT_TRUE(put_one(shard(number, 0)));
    ASSERT_TRUE(put_one(shard(number, 1)));
  }
  std::size_t visible(std::uint64_t number) const {
    std::size_t count = 0;
    for (std::uint16_t i = 0; i < 2; ++i) count += box_.reader().find(shard(number, i)).has_value();
    return count;
  }

  static constexpr SessionNumber kWriter = 1, kReader = 2;
  crash::PointPage& page_ = crash::PointPage::make();
  StoreBox box_{2};
  client::HoldTable holds_{box_.add_session(kReader)};
};

TEST_F(FamilyRules, HoldOnOneChunkKeepsItsFamily) {
  for (std::uint16_t held_shard = 0; held_shard < 2; ++held_shard) {
    const auto seen = *box_.reader().find(shard(1, held_shard));
    page_.stop_at("hold_announced");
    auto held = std::async(std::launch::async, [&] {
      return holds_.acquire(box_.reader(), seen.slot, seen.generation);
    });
    ASSERT_TRUE(page_.await("hold_announced"));
    EXPECT_FALSE(put_one(shard(2, 0))) << "the slot of another of the family was handed on";
    page_.go("hold_announced");
    const auto place = held.get();
    ASSERT_TRUE(place);
    EXPECT_EQ(visible(1), 2U);
    holds_.release(*place);
  }
}

TEST_F(FamilyRules, FamilyDisappearsBeforeAnySlotIsReused) {
  page_.stop_at("victims_scanned");
  auto replaced = std::async(std::launch::async, [this] { return put_one(shard(2, 0)); });
  ASSERT_TRUE(page_.await("victims_scanned"));
  EXPECT_EQ(visible(1), 0U) << "half a hit";
  page_.go("victims_scanned");
  EXPECT_TRUE(replaced.get());
  EXPECT_EQ(visible(1), 0U);
}

}  // namespace
}  // namespace larder::store::testing_support

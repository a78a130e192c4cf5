// The order of use, in each of the lists.
#include "sidecar/store/lru.h"

#include <gtest/gtest.h>

#include <list>
#include <map>
#include <random>
#include <vector>

namespace larder::store {
namespace {

constexpr std::uint32_t kOrderedSlots = 300, kClasses = 3;

class OrderModel {
 public:
  // `uses`: so far.
  explicit OrderModel(std::uint64_t uses = 0) : uses_(uses) {
    for (std::uint32_t n = 0; n < kOrderedSlots; ++n) table_.take();
  }
  // Becomes a candidate, or is used.
  void use(std::uint32_t slot, bool guest = false) {
    if (has(slot)) erase(slot);
    table_.note(slot).guest = guest ? 1 : 0;
    table_.note(slot).used_stamp = ++uses_ & kMostStamp;
    places_[slot] = order_.insert(order_.end(), slot);
    lru_.insert(slot, slot % kClasses);
  }
  // Becomes a candidate directly below another one of its class.
  void use_below(std::uint32_t slot, std::uint32_t above) {
    if (has(slot)) erase(slot);
    table_.note(slot).guest = table_.note(above).guest;
    table_.note(slot).used_stamp = table_.note(above).used_stamp;
    places_[slot] = order_.insert(places_.at(above), slot);
    lru_.insert_below(slot, above, slot % kClasses);
  }
  void erase(std::uint32_t slot) {
    lru_.erase(slot, slot % kClasses);
    order_.erase(places_.at(slot));
    places_.erase(slot);
  }
  bool has(std::uint32_t slot) const { return places_.contains(slot); }
  void check(std::uint32_t size_class, std::size_t most) const {
    std::vector<std::uint32_t> expected, victims(most);
    for (const bool guests : {true, false})  // guests first
      for (const std::uint32_t slot : order_)
        if (slot % kClasses == size_class && (table_.note(slot).guest != 0) == guests &&
            expected.size() < most)
          expected.push_back(slot);
    victims.resize(lru_.first_victims(size_class, victims));
    ASSERT_EQ(victims, expected);
  }

 private:
  SlotTable table_{kOrderedSlots};
  Lru lru_{table_};
  std::list<std::uint32_t> order_;  // first to leave first
  std::map<std::uint32_t, std::list<std::uint32_t>::iterator> places_;
  std::uint64_t uses_;
};

TEST(Lru, VictimsFollowTheOrderOfUse) {
  OrderModel model;
  std::mt19937 random(20261121);
  for (int step = 0; step < 20'000; ++step) {
    const auto slot = static_cast<std::uint32_t>(random() % kOrderedSlots);
    if (random() % 3 == 0 && model.has(slot)) {
      model.erase(slot);
    } else {
      model.use(slot);
    }
    if (step % 16 == 0) {
      ASSERT_NO_FATAL_FAILURE(model.check(slot % kClasses, random() % (kOrderedSlots / 2)));
    }
  }
}

// A use after the wrap once counted as older than all uses before.
TEST(Lru, OrderContinuesAcrossStampWrap) {
  OrderModel model(kMostStamp - 3 * kOrderedSlots);
  for (std::uint32_t round = 0; round < 6; ++round)
    for (std::uint32_t slot = 0; slot < kOrderedSlots; slot += 1 + round % 2) model.use(slot);
  for (std::uint32_t size_class = 0; size_class < kClasses; ++size_class)
    ASSERT_NO_FATAL_FAILURE(model.check(size_class, kOrderedSlots));
}

TEST(Lru, GuestsAreEvictedFirstInOrderOfUse) {
  OrderModel model;
  std::mt19937 random(20261126);
  for (int step = 0; step < 20'000; ++step) {
    const auto slot = static_cast<std::uint32_t>(random() % kOrderedSlots);
    if (random() % 3 == 0 && model.has(slot)) {
      model.erase(slot);
    } else {
      model.use(slot, random() % 4 == 0);
    }
    if (step % 16 == 0) {
      ASSERT_NO_FATAL_FAILURE(model.check(slot % kClasses, random() % (kOrderedSlots / 2)));
    }
  }
}

// Also across the wrap of stamps, and below guests.
TEST(Lru, PlacedBelowIsDirectlyBeforeTheOther) {
  OrderModel model(kMostStamp - 5000);
  std::mt19937 random(20261127);
  for (int step = 0; step < 20'000; ++step) {
    const auto slot = static_cast<std::uint32_t>(random() % kOrderedSlots);
    const auto above =
        static_cast<std::uint32_t>((slot + kClasses * (1 + random() % 5)) % kOrderedSlots);
    if (random() % 3 != 0 && above != slot && above % kClasses == slot % kClasses &&
        model.has(above)) {
      model.use_below(slot, above);
    } else if (random() % 4 == 0 && model.has(slot)) {
      model.erase(slot);
    } else {
      model.use(slot, random() % 4 == 0);
    }
    if (step % 16 == 0) {
      ASSERT_NO_FATAL_FAILURE(model.check(slot % kClasses, random() % (kOrderedSlots / 2)));
    }
  }
}

TEST(Lru, AClassWithoutCandidatesHasNoVictims) {
  OrderModel model;
  model.check(2, 5);
  model.use(2);
  model.erase(2);
  model.check(2, 5);
}

}  // namespace
}  // namespace larder::store

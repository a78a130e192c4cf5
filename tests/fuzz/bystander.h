// Bystander: an honest engine beside hostile ones in one Store, and the promises to this engine.
// One thread.
#pragma once

#include "tests/fuzz/input.h"
#include "tests/unit/store/store_fixture.h"

namespace larder::fuzz {

// Every slot in use lies within the arena, and no two slots meet: no engine is granted memory that
// another may touch.
inline void check_slots(const std::byte* index) {
  const auto* header = reinterpret_cast<const protocol::IndexHeader*>(index);
  const auto* entries =
      reinterpret_cast<const protocol::IndexEntry*>(index + header->entries_offset);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> used;
  for (std::uint64_t slot = 0; slot < header->entry_count; ++slot) {
    const protocol::IndexEntry& entry = entries[slot];
    if (protocol::word_state(entry.word.load()) == protocol::SlotState::kFree) continue;
    const std::uint64_t place = entry.place.load();
    const std::uint64_t begin =
        static_cast<std::uint64_t>(protocol::low_half(place)) * protocol::kSlotAlignBytes;
    used.emplace_back(begin,
                      begin + protocol::slot_bytes(protocol::high_half(place),
                                                   protocol::high_half(entry.origin.load())));
  }
  std::sort(used.begin(), used.end());
  for (std::size_t i = 0; i < used.size(); ++i) {
    must(used[i].second <= header->arena_bytes, "a slot lies within the arena");
    must(i == 0 || used[i - 1].second <= used[i].first, "no two slots in use meet");
  }
}

class Bystander {
 public:
  static constexpr store::SessionNumber kNumber = 1'000'000;
  static constexpr std::uint64_t kChunk = 77;

  // Stores a chunk and holds the chunk.
  explicit Bystander(store::testing_support::StoreBox& box) : box_(box) {
    box.add_session(kNumber);
    grant_ = box.put(kNumber, kChunk);
    must(grant_.status == 0, "an empty store has room");
    renew();
  }

  // Holds the chunk in another place: a hold that has stood for a minute does not count.
  void renew() {
    protocol::SessionRegion& region = box_.region(kNumber);
    box_.hold(region, 1 - place_, grant_);
    region.holds[place_].exchange(0);
    place_ = 1 - place_;
  }

  // The slot of a held chunk is not given to another engine; the chunk may be dropped from the
  // index.
  void check() const {
    check_slots(box_.index());
    const auto* header = reinterpret_cast<const protocol::IndexHeader*>(box_.index());
    const auto* entries =
        reinterpret_cast<const protocol::IndexEntry*>(box_.index() + header->entries_offset);
    const std::uint64_t word = entries[grant_.slot].word.load();
    const protocol::SlotState state = protocol::word_state(word);
    must(protocol::word_generation(word) == grant_.generation, "a held slot is not granted anew");
    must(state == protocol::SlotState::kCommitted || state == protocol::SlotState::kDying,
         "a held slot is not freed");
  }

  // Ends the engine, empties the store, and checks for leaks: as many chunks fit as at first.
  // REQUIRES: all others have ended.
  void leave(std::uint64_t slots) {
    box_.region(kNumber).holds[place_] = 0;
    store::Store& store = box_.store();
    store.sessions().end(kNumber);
    store.sessions().release_quarantine(kNumber);
    while (store.verify_next()) {
    }
    box_.drop();
    store.sweep();
    const stats::Stats stats = box_.filled();
    must(stats.slots_granted + stats.slots_committed + stats.slots_quarantined == 0,
         "everything comes back");
    constexpr store::SessionNumber kNext = kNumber + 1;
    box_.add_session(kNext);
    for (std::uint64_t n = 0; n < slots; ++n)
      must(box_.put(kNext, n).status == 0, "no slot has leaked");
    check_slots(box_.index());
  }

 private:
  store::testing_support::StoreBox& box_;
  protocol::Grant grant_{};
  std::uint32_t place_ = 0;
};

}  // namespace larder::fuzz

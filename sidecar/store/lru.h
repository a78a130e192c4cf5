// Lru: evicts the least recently used slot of a size, guests first. The lists are in the slot
// table: no further memory a slot, O(1) a call. Owned by the thread of the store.
//
// A guest (SlotNote::guest) is a copy of a chunk that another larderd owns: guests of a size leave
// in the order of their use, before the first own chunk.
//
// Neighbours in the order of use are far apart in memory, and a walk along one list would wait for
// a cache miss each. Uses are therefore dealt to several lists by their stamp, each in order. The
// next victim is the oldest of the heads, and the slot behind each head is prefetched. Slots of one
// stamp are in one list, in the order of eviction.
#pragma once

#include <array>
#include <vector>

#include "sidecar/store/eviction_policy.h"
#include "sidecar/store/slot_table.h"

namespace larder::store {

class Lru final : public EvictionPolicy {
 public:
  // `table` outlives this object.
  explicit Lru(SlotTable& table) : table_(table) {}

  void insert(std::uint32_t slot, std::uint32_t size_class) override;
  void insert_below(std::uint32_t slot, std::uint32_t above, std::uint32_t size_class) override;
  void erase(std::uint32_t slot, std::uint32_t size_class) override;
  std::size_t first_victims(std::uint32_t size_class,
                            std::span<std::uint32_t> slots) const override;
  std::uint32_t first_own_victim(std::uint32_t size_class) const override;

 private:
  static constexpr std::size_t kLanes = 16;
  using Order = std::array<SlotList, kLanes>;  // a use is in lane stamp % kLanes, coldest first
  struct SizeClass {
    Order own, guests;
    std::uint32_t guest_count = 0;
  };

  SlotList& lane_of(std::uint32_t slot, std::uint32_t size_class) {
    SizeClass& of_size = classes_[size_class];
    return (table_.note(slot).guest != 0 ? of_size.guests
                                         : of_size.own)[table_.note(slot).used_stamp % kLanes];
  }
  std::size_t take_oldest(const Order& order, std::span<std::uint32_t> slots) const;

  SlotTable& table_;
  std::vector<SizeClass> classes_;
};

}  // namespace larder::store

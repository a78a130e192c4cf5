// Lru: evicts the least recently used slot of a size. The lists are in the slot table: no further
// memory a slot, O(1) a call.
//
// Neighbours in the order of use are far apart in memory, and a walk along one list would wait for
// a cache miss each. Uses are therefore dealt to several lists by their stamp, each in order. The
// next victim is the oldest of the heads, and the slot behind each head is prefetched.
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
  void erase(std::uint32_t slot, std::uint32_t size_class) override;
  std::size_t first_victims(std::uint32_t size_class, std::span<std::uint32_t> slots) const override;

 private:
  static constexpr std::size_t kLanes = 16;
  using Order = std::array<SlotList, kLanes>;  // a use is in lane stamp % kLanes, coldest first

  SlotList& lane_of(std::uint32_t slot, std::uint32_t size_class) {
    return orders_[size_class][table_.note(slot).used_stamp % kLanes];
  }

  SlotTable& table_;
  std::vector<Order> orders_;  // one a size class
};

}  // namespace larder::store

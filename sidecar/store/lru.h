// Lru: evicts the slot of a size that was not used for longest. Its lists stand in the slot table: no memory a slot, O(1) each.
//
// Neighbours in the order of use are strangers in memory, and a walk along one list waits for each of them in turn. So uses are
// dealt to several lists, by their stamps, each in order; whoever is next is the oldest of their heads, and behind each head the
// next one is already on its way into cache.
#pragma once

#include <array>
#include <vector>

#include "sidecar/store/eviction_policy.h"
#include "sidecar/store/slot_table.h"

namespace larder::store {

class Lru final : public EvictionPolicy {
 public:
  // `table` outlives it.
  explicit Lru(SlotTable& table) : table_(table) {}

  void insert(std::uint32_t slot, std::uint32_t size_class) override;
  void erase(std::uint32_t slot, std::uint32_t size_class) override;
  std::size_t first_victims(std::uint32_t size_class, std::span<std::uint32_t> slots) const override;

 private:
  static constexpr std::size_t kLanes = 16;
  using Order = std::array<SlotList, kLanes>;  // a use stands in lane stamp % kLanes, coldest first

  SlotList& lane_of(std::uint32_t slot, std::uint32_t size_class) {
    return orders_[size_class][table_.note(slot).used_stamp % kLanes];
  }

  SlotTable& table_;
  std::vector<Order> orders_;  // one a size class
};

}  // namespace larder::store

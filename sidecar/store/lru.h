// Lru: evicts the slot of a size that was not used for longest. Its lists stand in the slot table: no memory a slot, O(1) each.
#pragma once

#include <vector>

#include "sidecar/store/eviction_policy.h"
#include "sidecar/store/slot_table.h"

namespace larder::store {

class Lru final : public EvictionPolicy {
 public:
  // `table` outlives it.
  explicit Lru(SlotTable& table) : table_(table) {}

  void insert(std::uint32_t slot, std::uint32_t size_class) override;
  void touch(std::uint32_t slot, std::uint32_t size_class) override;
  void erase(std::uint32_t slot, std::uint32_t size_class) override;
  std::size_t first_victims(std::uint32_t size_class, std::span<std::uint32_t> slots) const override;

 private:
  SlotTable& table_;
  std::vector<SlotList> orders_;  // one a size class, coldest first
};

}  // namespace larder::store

// Lru: evicts the slot that was not used for longest. 8 bytes a slot, O(1) each.
#pragma once

#include "sidecar/store/eviction_policy.h"
#include "sidecar/store/slot_links.h"

namespace larder::store {

class Lru final : public EvictionPolicy {
 public:
  void insert(std::uint32_t slot) override;
  void touch(std::uint32_t slot) override;
  void erase(std::uint32_t slot) override;
  std::size_t take_victims(std::span<std::uint32_t> slots) override;

 private:
  SlotLinks links_;
  SlotList order_;  // coldest first
};

}  // namespace larder::store

// Adaptive: evicts the chunk from which the fewest uses are expected, guests first.
//
// Chunks of one kind are expected to be used alike. The kind is the number of uses so far. With one
// or two uses the kind also has an origin: the uses of the chunk in front. A kind has one list for
// each lane, the least recently used chunk first. A victim is the first chunk of the list with the
// least worth (ReuseModel). A prompt is in one lane. When prompts return in a loop longer than the
// memory, an old chunk is worth more than a young one. One lane is then emptied, and the others
// keep their prompts.
//
// The policy remembers evicted chunks as ghosts, so that uses count across evictions. The memory is
// 16 bytes a slot, and 2 MiB for ghosts at least. Owned by the thread of the store.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sidecar/store/eviction_policy.h"
#include "sidecar/store/ghost_table.h"
#include "sidecar/store/lazy_array.h"
#include "sidecar/store/reuse_model.h"
#include "sidecar/store/slot_table.h"

namespace larder::store {

class Adaptive final : public EvictionPolicy {
 public:
  // `table` has `entry_count` slots, and outlives this object.
  Adaptive(SlotTable& table, std::uint64_t entry_count);

  void insert(std::uint32_t slot, std::uint32_t size_class) override;
  void insert_below(std::uint32_t slot, std::uint32_t above, std::uint32_t size_class) override;
  void erase(std::uint32_t slot, std::uint32_t size_class) override;
  std::size_t first_victims(std::uint32_t size_class,
                            std::span<std::uint32_t> slots) const override;
  std::uint32_t first_own_victim(std::uint32_t size_class) const override;

  // ---- Events that the policy learns from. REQUIRES: the slot is no candidate. ----
  // The slot has a new chunk of this name behind `parent` (kNoSlot: unknown).
  void stored(std::uint32_t slot, std::uint64_t name, std::uint32_t parent);
  // An engine used the chunk.
  void used(std::uint32_t slot);
  // The chunk leaves to make room.
  void evicted(std::uint32_t slot, std::uint64_t name);
  // The chunk counts as one of the kind of another slot from now on.
  void join(std::uint32_t slot, std::uint32_t other) { marks_[slot] = marks_[other]; }

 private:
  static constexpr std::uint32_t kLanes = 4;
  static constexpr std::uint32_t kLists = ReuseModel::kKinds * kLanes;
  struct Mark {
    std::uint64_t at : 48;  // the last use, or a later store behind the chunk; of clock_
    std::uint64_t uses : 5;
    std::uint64_t origin : 2;
    std::uint64_t lane : 2;
  };
  struct SizeClass {
    std::array<SlotList, kLists> own;
    SlotList guests;
  };

  static int kind_of(std::uint64_t uses, std::uint64_t origin);
  SlotList& list_of(std::uint32_t slot, std::uint32_t size_class);
  std::uint64_t age(std::uint32_t slot) const { return clock_ - marks_[slot].at; }
  std::size_t take_coldest(const SizeClass& of_size, std::span<std::uint32_t> slots) const;
  void tick();

  SlotTable& table_;
  LazyArray<Mark> marks_;
  GhostTable ghosts_;
  ReuseModel model_;
  std::vector<SizeClass> classes_;
  std::uint64_t clock_ = 0;  // uses and stores of chunks so far
  std::uint64_t candidates_ = 0, since_refresh_ = 0, since_fade_ = 0;
};

}  // namespace larder::store

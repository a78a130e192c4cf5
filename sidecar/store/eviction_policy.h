// EvictionPolicy: the order in which committed slots are evicted. It knows slot numbers, size
// classes and notes: room for a size is made among slots of that size.
//
// Owned by the thread of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace larder::store {

// lru: the least recently used chunk leaves first (Lru). adaptive: the chunk with the fewest
// expected uses (Adaptive).
enum class Eviction { kLru, kAdaptive };

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  // Adds a candidate. A used slot is erased and inserted again. A guest (SlotNote::guest) leaves
  // before all others, and its mark stays until erase(). REQUIRES: the slot is no candidate;
  // its note has the stamp of this use, which is above every earlier stamp and stays until erase().
  virtual void insert(std::uint32_t slot, std::uint32_t size_class) = 0;
  // Adds a candidate that leaves directly before `above`. REQUIRES: as insert(), but the note has
  // the stamp of `above`; `above` is a candidate of this class; both or neither are guests.
  virtual void insert_below(std::uint32_t slot, std::uint32_t above, std::uint32_t size_class) = 0;
  // Removes a candidate. REQUIRES: the slot is a candidate of this class.
  virtual void erase(std::uint32_t slot, std::uint32_t size_class) = 0;
  // Writes the first candidates to evict into `slots`, in order, and leaves them in place. Returns
  // the number.
  virtual std::size_t first_victims(std::uint32_t size_class,
                                    std::span<std::uint32_t> slots) const = 0;
  // The first victim that is no guest; kNoSlot without one.
  virtual std::uint32_t first_own_victim(std::uint32_t size_class) const = 0;
};

}  // namespace larder::store

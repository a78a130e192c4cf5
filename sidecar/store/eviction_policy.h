// EvictionPolicy: in which order committed slots go when room is needed. Knows slot numbers, their size classes and their notes,
// nothing else: room for one size is made among slots of that size.
//
// Owned by the store's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace larder::store {

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  // A slot became a candidate, or one was used: it is erased and inserted then. REQUIRES: it is none; its note has the stamp of
  // this use, which is above every earlier one and stays until erase().
  virtual void insert(std::uint32_t slot, std::uint32_t size_class) = 0;
  // No candidate any more. REQUIRES: it is one, of this class.
  virtual void erase(std::uint32_t slot, std::uint32_t size_class) = 0;
  // Writes those that should go first into `slots`, in order, and leaves them where they are. Returns how many.
  virtual std::size_t first_victims(std::uint32_t size_class, std::span<std::uint32_t> slots) const = 0;
};

}  // namespace larder::store

// EvictionPolicy: in which order committed slots go when room is needed. Knows slot numbers and their size classes, nothing else:
// room for one size is made among slots of that size.
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
  // A slot became a candidate; it counts as just used. REQUIRES: it is none yet.
  virtual void insert(std::uint32_t slot, std::uint32_t size_class) = 0;
  // A candidate was used. REQUIRES: it is one, of this class; so does erase().
  virtual void touch(std::uint32_t slot, std::uint32_t size_class) = 0;
  // No candidate any more.
  virtual void erase(std::uint32_t slot, std::uint32_t size_class) = 0;
  // Writes those that should go first into `slots`, in order, and leaves them where they are. Returns how many.
  virtual std::size_t first_victims(std::uint32_t size_class, std::span<std::uint32_t> slots) const = 0;
};

}  // namespace larder::store

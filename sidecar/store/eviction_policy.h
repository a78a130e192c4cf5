// EvictionPolicy: which committed slots go first when room is needed. Knows slot numbers and nothing else.
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
  virtual void insert(std::uint32_t slot) = 0;
  // A candidate was used. REQUIRES: it is one.
  virtual void touch(std::uint32_t slot) = 0;
  // No candidate any more. REQUIRES: it was one.
  virtual void erase(std::uint32_t slot) = 0;
  // Takes the first victims out of the candidates into `slots`, in order. Returns how many.
  virtual std::size_t take_victims(std::span<std::uint32_t> slots) = 0;
};

}  // namespace larder::store

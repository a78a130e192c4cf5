// prefetch(): starts to load a cache line for a write. In a batch the cache misses then overlap.
#pragma once

#include <cstddef>

namespace larder::store {

// The entries of a batch whose lines are asked for before the first one is used.
inline constexpr std::size_t kPrefetchAhead = 8;

inline void prefetch(const void* line) {
  __builtin_prefetch(line, 1);
  // GCC 12 removes calls of a function that only prefetches, as a function without effect. The
  // empty asm is an effect without code.
  asm volatile("" : : "r"(line));
}

}  // namespace larder::store

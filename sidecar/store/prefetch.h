// prefetch(): starts to load a cache line for a write. In a batch the cache misses then overlap.
#pragma once

namespace larder::store {

inline void prefetch(const void* line) {
  __builtin_prefetch(line, 1);
  // GCC 12 removes calls of a function that only prefetches, as a function without effect. The
  // empty asm is an effect without code.
  asm volatile("" : : "r"(line));
}

}  // namespace larder::store

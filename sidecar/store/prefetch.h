// prefetch(): starts bringing a line of memory into cache, to be written soon: for batches, whose misses then overlap.
#pragma once

namespace larder::store {

inline void prefetch(const void* line) {
  __builtin_prefetch(line, 1);
  // GCC 12 takes a function that does nothing but prefetch for one without effect and drops every call of it. This has one, of no
  // code.
  asm volatile("" : : "r"(line));
}

}  // namespace larder::store

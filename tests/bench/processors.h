// The processors of a thread, and of the threads and processes that it makes later. A benchmark
// separates two threads that wait for each other: otherwise the kernel wakes one on the other's
// processor, and both take turns there while other processors idle.
#pragma once

#include <sched.h>

#include <cstdio>
#include <thread>

namespace larder::bench {

// Binds to `processor` alone.
inline void stay_on(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  if (::sched_setaffinity(0, sizeof(set), &set) != 0) std::perror("sched_setaffinity");
}

// Binds to all processors except `processor`, if there are others.
inline void stay_off(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (unsigned other = 0; other < std::thread::hardware_concurrency(); ++other)
    if (other != processor) CPU_SET(other, &set);
  if (CPU_COUNT(&set) != 0 && ::sched_setaffinity(0, sizeof(set), &set) != 0)
    std::perror("sched_setaffinity");
}

}  // namespace larder::bench

// Which processors a thread runs on, and the threads and processes that it makes from then on. A benchmark of two that wait for each
// other keeps them apart: else the kernel wakes one where the other runs, and they take turns on one processor while others idle.
#pragma once

#include <sched.h>

#include <cstdio>
#include <thread>

namespace larder::bench {

// On `processor` alone.
inline void stay_on(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  if (::sched_setaffinity(0, sizeof(set), &set) != 0) std::perror("sched_setaffinity");
}

// On all but `processor`, where there are others.
inline void stay_off(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (unsigned other = 0; other < std::thread::hardware_concurrency(); ++other)
    if (other != processor) CPU_SET(other, &set);
  if (CPU_COUNT(&set) != 0 && ::sched_setaffinity(0, sizeof(set), &set) != 0) std::perror("sched_setaffinity");
}

}  // namespace larder::bench

// How often the kernel killed a process of this control group for want of memory. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace larder::supervisor {

// The number behind "oom_kill" among lines of NAME NUMBER; 0 where there is none. Pure.
std::uint64_t memory_kills_in(std::string_view text);

// Of this process's own group, as a container sees it: version 2 of control groups, else 1. 0 where neither says it.
std::uint64_t memory_kills();

}  // namespace larder::supervisor

// How often the kernel killed a process of this control group for lack of memory. Thread-safe.
#pragma once

#include <cstdint>
#include <string_view>

namespace larder::supervisor {

// The number behind "oom_kill" among lines of NAME NUMBER; 0 if the line is missing. Pure.
std::uint64_t memory_kills_in(std::string_view text);

// The count of the control group of this process, as a container sees it: version 2 of control
// groups, else version 1. 0 if neither gives a count.
std::uint64_t memory_kills();

}  // namespace larder::supervisor

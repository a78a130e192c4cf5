// How many files this process may have open at once. Process-wide; thread-safe.
#pragma once

#include <cstdint>

namespace larder::base {

// Raises the soft limit to `wanted`, as far as the hard limit allows; never lowers the limit. A
// failure is a warning in the log.
void raise_descriptor_limit(std::uint64_t wanted);

}  // namespace larder::base

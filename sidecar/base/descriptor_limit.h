// How many files this process may have open at once. Process-wide; thread-safe.
#pragma once

#include <cstdint>

namespace larder::base {

// Raises the soft limit to `wanted`, as far as the hard one allows; never lowers it. What fails is a warning.
void raise_descriptor_limit(std::uint64_t wanted);

}  // namespace larder::base

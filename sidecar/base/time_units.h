// Units of time as numbers.
#pragma once

#include <cstdint>

namespace larder::base {

inline constexpr std::uint64_t kNsPerMs = 1'000'000;

}  // namespace larder::base

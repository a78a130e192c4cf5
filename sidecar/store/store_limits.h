// The longest slices of the store: look-ups, and slots looked at (see Store::effort()).
#pragma once

#include <cstdint>

namespace larder::store {

inline constexpr std::uint32_t kSliceEffort = 16'384;
inline constexpr std::uint32_t kReserveEffort = 8192;

}  // namespace larder::store

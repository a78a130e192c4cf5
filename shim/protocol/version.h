// Protocol version. An unknown minor is accepted and the tail of its messages ignored; an unknown major is refused by name.
#pragma once

#include <cstdint>

namespace larder::protocol {

inline constexpr std::uint32_t kVersionMajor = 1;
inline constexpr std::uint32_t kVersionMinor = 6;

}  // namespace larder::protocol

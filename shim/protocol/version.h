// The version of the protocol. A receiver accepts an unknown minor version and ignores the unknown
// tail of its messages. An unknown major version is refused by name.
#pragma once

#include <cstdint>

namespace larder::protocol {

inline constexpr std::uint32_t kVersionMajor = 1;
inline constexpr std::uint32_t kVersionMinor = 9;

}  // namespace larder::protocol

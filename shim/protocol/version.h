// The version of the protocol. A receiver accepts an unknown minor version and ignores the unknown
// tail of its messages. An unknown major version is refused by name.
#pragma once

#include <cstdint>

namespace larder::protocol {

// Layouts are little-endian with explicit padding. The static_asserts beside each layout, and the
// golden bytes of tests/unit/protocol, show a change.
// A change of bytes is a change of version: a new tail or message raises the minor version, any
// other change the major one.
inline constexpr std::uint32_t kVersionMajor = 1;
inline constexpr std::uint32_t kVersionMinor = 11;

}  // namespace larder::protocol

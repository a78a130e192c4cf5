// The lock file of a session: what stands in it. That it is locked says that the engine lives (PROTOCOL.md).
#pragma once

#include <cstdint>

namespace larder::protocol {

// The sidecar's words come first, and engines do not read them. Behind them the engine writes a byte, a 1, before a device of its own (a GPU) writes
// into the arena for the first time. Who does not know it reads no further than the words.
inline constexpr std::int64_t kDeviceWritesOffset = 32;
// Another of the sidecar's, a 1 before its own GPU writes for that session: for the sidecar after it, since who ends of itself waits for its copies.
inline constexpr std::int64_t kSidecarWritesOffset = 33;

}  // namespace larder::protocol

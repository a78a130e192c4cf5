// The content of a session's lock file. While the file is locked, the engine lives (PROTOCOL.md).
#pragma once

#include <cstdint>

namespace larder::protocol {

// The words of the sidecar come first; engines do not read them. At this offset the engine writes a
// byte 1 before its own device (a GPU) writes into the arena for the first time. An older sidecar
// reads only the words.
inline constexpr std::int64_t kDeviceWritesOffset = 32;
// At this offset the sidecar writes a byte 1 before its own GPU writes for the session. The byte is
// for the next sidecar after a kill: a sidecar that stops in good order waits for its copies.
inline constexpr std::int64_t kSidecarWritesOffset = 33;

}  // namespace larder::protocol

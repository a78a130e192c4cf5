// The listening socket of the control protocol, and what the kernel says of a peer.
#pragma once

#include <cstdint>
#include <string>

#include "shim/protocol/fd.h"

namespace larder::ipc {

// Binds and listens at `path`, whose directory is made. A socket file that nobody listens at is replaced; kAlreadyExists if
// somebody does.
Result<Fd> listen_at(const std::string& path, std::uint32_t mode);

// A descriptor that becomes readable when the peer's process ends, even while a child of it keeps the socket open. kUnsupported:
// the kernel, before 6.5, has none to give. Any other error is of this moment: no descriptors left, or the process has ended
// already.
Result<Fd> peer_pidfd(const Fd& socket);

}  // namespace larder::ipc

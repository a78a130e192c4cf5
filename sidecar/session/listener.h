// The listening socket of the control protocol, and what the kernel says of a peer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shim/base/fd.h"

namespace larder::session {

// Binds and listens at `path`, whose directory is made. A socket file that nobody listens at is replaced; kAlreadyExists if
// somebody does.
Result<Fd> listen_at(const std::string& path, std::uint32_t mode);

// Who has connected, for the log's bound: "pid 71" of "uid 1000". A process of another PID namespace has pid 0.
struct Peer {
  std::string user, process;
};
Peer peer_of(const Fd& socket);
// The source of a process' lines of one kind (sidecar/base/log_throttle.h): an engine that starts may write one of each.
std::string log_source(const Peer& peer, std::string_view kind);

// A descriptor that becomes readable when the peer's process ends, even while a child of it keeps the socket open. kUnsupported:
// the kernel, before 6.5, has none to give. Any other error is of this moment: no descriptors left, or the process has ended
// already.
Result<Fd> peer_pidfd(const Fd& socket);

}  // namespace larder::session

// The listening socket of the control protocol, and the credentials of a peer from the kernel.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shim/base/fd.h"

namespace larder::session {

// Binds and listens at `path`, and makes the directory. Replaces a socket file without a listener;
// kAlreadyExists if another process listens.
Result<Fd> listen_at(const std::string& path, std::uint32_t mode);

// The peer of a connection, as a source for log_from(): "pid 71" of "uid 1000". A process of
// another PID namespace has pid 0.
struct Peer {
  std::string user, process;
};
Peer peer_of(const Fd& socket);
// The source for lines of one kind of a process (sidecar/base/log_throttle.h): a starting engine
// may write one line of each kind.
std::string log_source(const Peer& peer, std::string_view kind);

// A descriptor that becomes readable when the process of the peer ends, even while a child process
// keeps the socket open. kUnsupported: a kernel before 6.5. Any other error is temporary or final
// for this peer: no descriptors left, or the process has ended.
Result<Fd> peer_pidfd(const Fd& socket);

}  // namespace larder::session

#include "sidecar/session/listener.h"

#include <sys/socket.h>

#include <filesystem>

#include "shim/protocol/limits.h"
#include "sidecar/base/unix_listener.h"

namespace larder::session {
namespace {

#ifndef SO_PEERPIDFD
constexpr int SO_PEERPIDFD = 77;  // Linux 6.5; older headers lack the name
#endif

}  // namespace

Result<Fd> listen_at(const std::string& path, std::uint32_t mode) {
  std::error_code error;
  if (!path.empty())
    // /run is a tmpfs: after a reboot the directory of the socket is missing.
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error)
    return Status::from_errno(
        error.value(), "socket " + path +
                           ": its directory is missing and cannot be made (make it, or set " +
                           "LARDER_SOCKET for larderd and engines)");
  // SOCK_SEQPACKET keeps the bounds of messages and passes descriptors. The backlog lets all
  // engines reconnect at once after a restart.
  return base::listen_unix({path, mode, SOCK_SEQPACKET, protocol::kMaxSessions, "socket",
                            "choose another socket",
                            "set LARDER_SOCKET for larderd and engines to another"});
}

Peer peer_of(const Fd& socket) {
  ucred who{};
  socklen_t size = sizeof(who);
  // The kernel noted these credentials at connect(): the engine cannot choose them.
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
    return {"uid ?", "pid ?"};
  return {"uid " + std::to_string(who.uid), "pid " + std::to_string(who.pid)};
}

// The kind is part of the source, so a flood of one kind of line cannot hide another kind.
std::string log_source(const Peer& peer, std::string_view kind) {
  return peer.process + " of " + peer.user + ", " + std::string(kind);
}

// The pidfd also works across PID namespaces, where the number of the process means nothing.
Result<Fd> peer_pidfd(const Fd& socket) {
  int fd = -1;
  socklen_t size = sizeof(fd);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) return Fd(fd);
  // EINVAL does not mean an old kernel: Linux 6.5 returns EINVAL for an ended process, later
  // versions ESRCH.
  if (errno == ENOPROTOOPT)
    return Status(Code::kUnsupported, "the kernel gives no pidfd for a peer");
  return Status::from_errno(errno, "SO_PEERPIDFD (the pidfd of the engine's process)");
}

}  // namespace larder::session

#include "sidecar/ipc/listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>

#include "shim/protocol/limits.h"

namespace larder::ipc {
namespace {

#ifndef SO_PEERPIDFD
constexpr int SO_PEERPIDFD = 77;  // Linux 6.5; this C library's headers are older
#endif

Result<Fd> make_socket() {
  Fd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Status::from_errno(errno, "socket");
  return fd;
}

// Unlinks a socket that a dead larderd left behind.
Status remove_stale(const sockaddr_un& address) {
  Result<Fd> probe = make_socket();
  if (!probe.ok()) return probe.status();
  const std::string path = address.sun_path;
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return {};
  if (!S_ISSOCK(info.st_mode))
    return {Code::kAlreadyExists,
            "socket " + path + ": a file that is no socket stands there; remove it or choose another socket"};
  if (::connect(probe->get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 || errno == EAGAIN)
    return {Code::kAlreadyExists, "socket " + path + ": another process listens there; stop it or choose another socket"};
  // EACCES: it is another user's. EPROTOTYPE: an admin socket, or not Larder's at all.
  if (errno != ECONNREFUSED && errno != ENOENT)
    return Status::from_errno(errno, "socket " + path + ": somebody else's socket stands there; choose another socket");
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return Status::from_errno(errno, "unlink stale socket " + path);
  return {};
}

}  // namespace

Result<Fd> listen_at(const std::string& path, std::uint32_t mode) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path))
    return Status(Code::kInvalidArgument,
                  "socket '" + path + "': a path of 1 to " + std::to_string(sizeof(address.sun_path) - 1) + " bytes is needed");
  std::memcpy(address.sun_path, path.data(), path.size());
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error)
    return Status::from_errno(error.value(), "socket " + path +
                                                 ": its directory is missing and cannot be made (make it, or set " +
                                                 "LARDER_SOCKET for larderd and engines)");
  if (Status status = remove_stale(address); !status.ok()) return status;
  Result<Fd> fd = make_socket();
  if (!fd.ok()) return fd;
  // The mode of the socket inode is set before it has a name, so that it is never open to more than `mode` allows.
  if (::fchmod(fd->get(), mode) != 0) return Status::from_errno(errno, "fchmod socket " + path);
  if (::bind(fd->get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return Status::from_errno(errno, "socket " + path + " cannot be made (set LARDER_SOCKET for larderd and engines to another)");
  if (::chmod(path.c_str(), mode) != 0) return Status::from_errno(errno, "chmod socket " + path);
  if (::listen(fd->get(), protocol::kMaxSessions) != 0) return Status::from_errno(errno, "listen at socket " + path);
  return fd;
}

Result<Fd> peer_pidfd(const Fd& socket) {
  int fd = -1;
  socklen_t size = sizeof(fd);
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0) return Fd(fd);
  // EINVAL is no sign of an old kernel: 6.5 says it of a process that has ended, later ones ESRCH.
  if (errno == ENOPROTOOPT) return Status(Code::kUnsupported, "the kernel gives no pidfd for a peer");
  return Status::from_errno(errno, "SO_PEERPIDFD (the pidfd of the engine's process)");
}

}  // namespace larder::ipc

#include "sidecar/base/unix_listener.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cstring>

namespace larder::base {
namespace {

std::string name_of(const UnixSocket& wanted) {
  return std::string(wanted.key) + " " + wanted.path;
}

// Unlinks a socket that a dead larderd left behind.
Status remove_stale(const UnixSocket& wanted, const sockaddr_un& address) {
  struct stat info {};
  // lstat() and not stat(): a symbolic link is refused as any other file, and its target is never
  // probed.
  if (::lstat(wanted.path.c_str(), &info) != 0) return {};
  if (!S_ISSOCK(info.st_mode))
    return {Code::kAlreadyExists, name_of(wanted) +
                                      ": a file that is no socket stands there; remove it or " +
                                      wanted.instead};
  // A connect is the only proof of a listener: the file of a killed larderd looks the same. EAGAIN
  // means a full backlog, so a listener exists. ECONNREFUSED means a file without a listener.
  const Fd probe(::socket(AF_UNIX, wanted.type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.valid()) return Status::from_errno(errno, "socket");
  const int error =
      ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0
          ? 0
          : errno;
  if (error == 0 || error == EAGAIN)
    return {Code::kAlreadyExists,
            name_of(wanted) + ": another process listens there; stop it or " + wanted.instead};
  // EACCES: a socket of another user. EPROTOTYPE: a socket of another type, for example the admin
  // socket in the place of the socket for engines.
  if (error != ECONNREFUSED && error != ENOENT)
    return Status::from_errno(
        error, name_of(wanted) + ": somebody else's socket stands there; " + wanted.instead);
  if (::unlink(wanted.path.c_str()) != 0 && errno != ENOENT)
    return Status::from_errno(errno, "unlink stale " + name_of(wanted));
  return {};
}

}  // namespace

Result<Fd> listen_unix(const UnixSocket& wanted) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (wanted.path.empty() || wanted.path.size() >= sizeof(address.sun_path))
    return Status(Code::kInvalidArgument,
                  std::string(wanted.key) + " '" + wanted.path + "': a path of 1 to " +
                      std::to_string(sizeof(address.sun_path) - 1) + " bytes is needed");
  // `address` is zeroed, so the path ends with a zero byte.
  std::memcpy(address.sun_path, wanted.path.data(), wanted.path.size());
  if (Status status = remove_stale(wanted, address); !status.ok()) return status;
  Fd fd(::socket(AF_UNIX, wanted.type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Status::from_errno(errno, "socket");
  // fchmod() before bind(): the socket has its mode before it has a name, so a process without
  // permission can at no moment connect.
  if (::fchmod(fd.get(), wanted.mode) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::chmod(wanted.path.c_str(), wanted.mode) != 0 || ::listen(fd.get(), wanted.backlog) != 0)
    return Status::from_errno(errno, name_of(wanted) + " cannot be made (" + wanted.hint + ")");
  return fd;
}

}  // namespace larder::base

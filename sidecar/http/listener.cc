#include "sidecar/http/listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <cstring>
#include <memory>

namespace larder::http {
namespace {

constexpr int kBacklog = 128;
const std::string kAdmin = "http.admin_socket ";

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// "HOST:PORT" of a bound socket, and whether it is the loopback interface's.
Status describe(Listener& listener) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (::getsockname(listener.socket.get(), address, &size) != 0) return Status::from_errno(errno, "getsockname");
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {Code::kInternal, "getnameinfo of the listening socket"};
  const bool v6 = address->sa_family == AF_INET6;
  listener.address = std::string(v6 ? "[" : "") + host.data() + (v6 ? "]:" : ":") + port.data();
  listener.loopback = is_loopback(address);
  return {};
}

// An answer on the socket file means that somebody lives there.
Status remove_stale(const std::string& path, const sockaddr_un& address) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) return {};
  if (!S_ISSOCK(info.st_mode))
    return {Code::kAlreadyExists,
            kAdmin + path + ": a file that is no socket stands there; remove it or set another http.admin_socket"};
  const Fd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int error = ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
  if (error == 0 || error == EAGAIN)
    return {Code::kAlreadyExists, kAdmin + path + ": another larderd answers there (set pool, or http.admin_socket)"};
  // EACCES: it is another user's. EPROTOTYPE: a socket of engines.
  if (error != ECONNREFUSED && error != ENOENT)
    return Status::from_errno(error, kAdmin + path + ": somebody else's socket stands there; set another http.admin_socket");
  ::unlink(path.c_str());
  return {};
}

}  // namespace

Result<Listener> listen_tcp(const config::ListenAddress& address) {
  const std::string port = std::to_string(address.port);
  const std::string name = "http.listen " + address.host + ":" + port;
  constexpr const char* kHint = " (choose another address, or \"\" for none)";
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return Status(Code::kInvalidArgument, name + kHint + ": " + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> guard(found, &::freeaddrinfo);

  Listener listener;
  listener.socket = Fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.socket.valid()) return Status::from_errno(errno, name);
  const int on = 1;
  ::setsockopt(listener.socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (::bind(listener.socket.get(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(listener.socket.get(), kBacklog) != 0)
    return Status::from_errno(errno, name + kHint);
  if (Status status = describe(listener); !status.ok()) return status;
  return listener;
}

Result<Listener> listen_unix(const std::string& path, std::uint32_t mode) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return Status(Code::kOutOfRange, kAdmin + path + ": path too long");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (Status status = remove_stale(path, address); !status.ok()) return status;

  Listener listener;
  listener.address = path;
  listener.socket = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.socket.valid()) return Status::from_errno(errno, kAdmin + path);
  // fchmod before bind gives the file its mode from its first moment on.
  if (::fchmod(listener.socket.get(), mode) != 0 ||
      ::bind(listener.socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::chmod(path.c_str(), mode) != 0 || ::listen(listener.socket.get(), kBacklog) != 0)
    return Status::from_errno(errno, kAdmin + path + " cannot be made (its folder must exist and be writable, or set another)");
  return listener;
}

}  // namespace larder::http

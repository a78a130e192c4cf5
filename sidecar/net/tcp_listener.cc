#include "sidecar/net/tcp_listener.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>

namespace larder::net {
namespace {

constexpr int kBacklog = 128;

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { ::freeaddrinfo(addresses); }
};

// The numeric host and port of an address.
std::pair<std::string, std::string> text_of(const sockaddr_storage& storage, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&storage), size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {"unknown", "0"};
  return {host.data(), port.data()};
}

// An IPv6 socket on the wildcard address also accepts IPv4.
Result<Fd> open_at(const addrinfo& one, const std::string& name) {
  Fd socket(::socket(one.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return Status::from_errno(errno, name);
  const int on = 1, off = 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (one.ai_family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (::bind(socket.get(), one.ai_addr, one.ai_addrlen) != 0 || ::listen(socket.get(), kBacklog) != 0)
    return Status::from_errno(errno, name);
  return socket;
}

}  // namespace

Result<TcpListener> TcpListener::open(const Endpoint& where, const std::string& key) {
  const std::string name = key + " " + net::text_of(where) + " (choose another address, or \"\" for none)";
  addrinfo hints{};
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(where.host.empty() ? nullptr : where.host.c_str(), std::to_string(where.port).c_str(), &hints, &found);
  if (error != 0) return Status(Code::kInvalidArgument, name + ": " + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  // For the wildcard the IPv6 socket first, which takes IPv4 too; a kernel without IPv6 refuses it.
  Status failed;
  for (const bool six : {true, false}) {
    for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
      if (where.host.empty() && (one->ai_family == AF_INET6) != six) continue;
      Result<Fd> socket = open_at(*one, name);
      if (!socket.ok()) {
        failed = socket.status();
        continue;
      }
      TcpListener listener;
      listener.socket_ = *std::move(socket);
      sockaddr_storage bound{};
      socklen_t size = sizeof(bound);
      if (::getsockname(listener.fd(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) return Status::from_errno(errno, name);
      const auto [host, port] = text_of(bound, size);
      listener.address_ = (bound.ss_family == AF_INET6 ? "[" + host + "]" : host) + ":" + port;
      return listener;
    }
  }
  return failed;
}

std::optional<TcpListener::Accepted> TcpListener::accept() const {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  Fd socket(::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.valid()) return std::nullopt;
  return Accepted{std::move(socket), text_of(peer, size).first};
}

}  // namespace larder::net

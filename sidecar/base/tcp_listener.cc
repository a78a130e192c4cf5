#include "sidecar/base/tcp_listener.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <memory>

namespace larder::base {
namespace {

// All of 127.0.0.0/8 is loopback, not 127.0.0.1 alone. Admin verbs depend on this answer
// (sidecar/pages).
bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

// Fills in "HOST:PORT" of a bound socket, and whether the address is a loopback address.
// With port 0 the kernel chooses the port. Only the bound socket knows the number that the log must
// show.
Status describe(TcpListener& listener) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (::getsockname(listener.socket.get(), address, &size) != 0)
    return Status::from_errno(errno, "getsockname");
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {Code::kInternal, "getnameinfo of the listening socket"};
  const bool v6 = address->sa_family == AF_INET6;
  listener.address = std::string(v6 ? "[" : "") + host.data() + (v6 ? "]:" : ":") + port.data();
  listener.loopback = is_loopback(address);
  return {};
}

// Binds and listens. An IPv6 socket on the wildcard address also accepts IPv4.
Result<Fd> open_at(const addrinfo& one, const std::string& name) {
  Fd socket(::socket(one.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return Status::from_errno(errno, name);
  const int on = 1, off = 0;
  // Without SO_REUSEADDR a restart fails for a minute, while old connections are in TIME_WAIT.
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (one.ai_family == AF_INET6)
    // Explicit, because the sysctl net.ipv6.bindv6only can change the default.
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (::bind(socket.get(), one.ai_addr, one.ai_addrlen) != 0 ||
      ::listen(socket.get(), kListenBacklog) != 0)
    return Status::from_errno(errno, name);
  return socket;
}

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { ::freeaddrinfo(addresses); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

// The first address of the host. For the wildcard (`every`): the IPv6 wildcard, if the machine has
// IPv6.
const addrinfo& chosen(const addrinfo& first, bool every) {
  for (const addrinfo* one = &first; every && one != nullptr; one = one->ai_next)
    if (one->ai_family == AF_INET6) return *one;
  return first;
}

}  // namespace

Result<TcpListener> listen_tcp(const std::string& host, std::uint16_t port,
                               const std::string& key) {
  const std::string service = std::to_string(port);
  const std::string name =
      key + " " + host + ":" + service + " (choose another address, or \"\" for none)";
  const bool every = host.empty();
  addrinfo hints{};
  // AI_PASSIVE: without a host the addresses are wildcards to listen on. AI_NUMERICSERV: a port
  // never waits for a look-up of service names.
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(every ? nullptr : host.c_str(), service.c_str(), &hints, &found);
  if (error != 0) return Status(Code::kInvalidArgument, name + ": " + ::gai_strerror(error));
  const Addresses addresses(found);

  const addrinfo& one = chosen(*found, every);
  Result<Fd> socket = open_at(one, name);
  // getaddrinfo() gives the IPv6 wildcard even on a kernel without IPv6.
  if (!socket.ok() && every && one.ai_family == AF_INET6 && found->ai_family != AF_INET6)
    socket = open_at(*found, name);
  if (!socket.ok()) return socket.status();
  TcpListener listener;
  listener.socket = std::move(*socket);
  if (Status status = describe(listener); !status.ok()) return status;
  return listener;
}

Accepted accept_next(int listener) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  Accepted accepted{Fd(::accept4(listener, reinterpret_cast<sockaddr*>(&storage), &size,
                                 SOCK_NONBLOCK | SOCK_CLOEXEC)),
                    "local"};
  const auto take = [&](const auto& bytes) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    // An IPv4 client of an IPv6 socket appears as "::ffff:10.0.0.7".
    accepted.peer = ::inet_ntop(storage.ss_family, &bytes, text.data(), text.size());
  };
  // An answer may be written in pieces (TLS tickets, then the answer). Without TCP_NODELAY a later
  // piece would wait for the delayed acknowledgement of the client.
  const int at_once = 1;
  if (storage.ss_family == AF_INET || storage.ss_family == AF_INET6)
    ::setsockopt(accepted.socket.get(), IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once));
  if (storage.ss_family == AF_INET) take(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr);
  if (storage.ss_family == AF_INET6)
    take(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr);
  return accepted;
}

}  // namespace larder::base

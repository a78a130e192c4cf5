// A raw client: tests send bytes that no HTTP library would.
#pragma once

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>

#include "shim/base/fd.h"

namespace larder::http {

inline Fd open_tcp() {
  return Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

// Connects `socket`, which takes no descriptor. `from`: the last byte of the client's loopback
// address; a server that tells clients apart by address needs several.
inline Fd connect_tcp(Fd socket, const std::string& address, unsigned char from = 1) {
  if (from != 1) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xffU) | from);
    const int late = 1;  // the port: by connect(), so that as many are free as there are servers
    ::setsockopt(socket.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late, sizeof(late));
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&own), sizeof(own)) != 0) return {};
  }
  sockaddr_in peer{};
  peer.sin_family = AF_INET;
  peer.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  peer.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&peer), sizeof(peer)) != 0)
    socket.reset();
  return socket;
}
inline Fd connect_tcp(const std::string& address, unsigned char from = 1) {
  return connect_tcp(open_tcp(), address, from);
}

inline Fd connect_unix(const std::string& path) {
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un peer{};
  peer.sun_family = AF_UNIX;
  std::memcpy(peer.sun_path, path.c_str(), path.size() + 1);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&peer), sizeof(peer)) != 0)
    socket.reset();
  return socket;
}

// False when the peer has closed.
inline bool send_all(const Fd& socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

// Everything until the peer closes, at most 10 s.
inline std::string receive_all(const Fd& socket) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::string bytes;
  std::array<char, 65536> buffer{};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
                          end - std::chrono::steady_clock::now())
                          .count();
    pollfd polled{socket.get(), POLLIN, 0};
    if (left <= 0 || ::poll(&polled, 1, static_cast<int>(left)) <= 0)
      return bytes + "(no end within 10 s)";
    const ssize_t got = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (got <= 0) return bytes;
    bytes.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

inline std::string ask(const Fd& socket, std::string_view request) {
  send_all(socket, request);
  return receive_all(socket);
}

}  // namespace larder::http

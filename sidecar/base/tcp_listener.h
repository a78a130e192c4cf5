// A listening TCP socket, and its accepted connections. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "shim/base/fd.h"
#include "shim/base/status.h"

namespace larder::base {

// In a flood honest clients wait here; a dropped SYN would cost them a second.
inline constexpr int kListenBacklog = 4096;

struct TcpListener {
  Fd socket;            // non-blocking
  std::string address;  // with the port in use: "127.0.0.1:9465", "[::]:9465"
  bool loopback = false;
};

// `host` "" is every address of the machine; `port` 0 takes a free port. Errors name `key` (the
// setting), the address and the remedy.
Result<TcpListener> listen_tcp(const std::string& host, std::uint16_t port, const std::string& key);

struct Accepted {
  Fd socket;         // non-blocking; invalid: no client waits, or errno has the error
  std::string peer;  // the address of the client without the port; "local" on a Unix socket
};
// Of a listening TCP or Unix socket.
Accepted accept_next(int listener);

}  // namespace larder::base

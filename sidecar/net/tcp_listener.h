// TcpListener: a listening TCP socket and its accepted connections. Owned by one thread.
#pragma once

#include <optional>
#include <string>

#include "shim/base/fd.h"
#include "shim/base/status.h"
#include "sidecar/net/endpoint.h"

namespace larder::net {

class TcpListener {
 public:
  // `where`: host "" is every address of the machine; port 0 takes a free port. Errors begin with
  // `key`, the key of the configuration.
  static Result<TcpListener> open(const Endpoint& where, const std::string& key);

  int fd() const { return socket_.get(); }
  // With the real port: "127.0.0.1:9465", "[::]:9465".
  const std::string& address() const { return address_; }

  struct Accepted {
    Fd socket;         // non-blocking
    std::string peer;  // the address without the port
  };
  // The next waiting connection; empty without one, or if the process has too many descriptors.
  std::optional<Accepted> accept() const;

 private:
  Fd socket_;
  std::string address_;
};

}  // namespace larder::net

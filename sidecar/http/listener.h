// Sockets to accept on. Errors name the address and what to do. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "shim/base/fd.h"
#include "sidecar/config/values.h"
#include "sidecar/http/hosts.h"

namespace larder::http {

struct Listener {
  Fd socket;            // non-blocking
  std::string address;  // "127.0.0.1:9464", with the port in use, or the path
  bool loopback = false;
  Hosts hosts = Hosts::any();  // the names that requests may have as Host
};

// `key` names the setting in errors. Its hosts are those of Hosts::of().
Result<Listener> listen_tcp(const config::ListenAddress& address, const std::string& key = "http.listen");

struct Accepted {
  Fd socket;         // non-blocking; invalid: nobody waits, or errno says why not
  std::string peer;  // the address it comes from, without its port; "local" on a Unix socket
};
Accepted accept_next(const Listener& listener);

// A socket file that nobody answers on is replaced; one that is in use is refused.
Result<Listener> listen_unix(const std::string& path, std::uint32_t mode);

}  // namespace larder::http

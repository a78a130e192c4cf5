// Sockets to accept on. Errors name the address and the remedy. Thread-safe.
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
  Hosts hosts = Hosts::any();  // the allowed values of Host; on a Unix socket any value
};

// `key`: the setting to name in errors. The listener gets Hosts::of(address).
Result<Listener> listen_tcp(const config::ListenAddress& address,
                            const std::string& key = "http.listen");

// Replaces a socket file without a listener; refuses a path that is in use.
Result<Listener> listen_unix(const std::string& path, std::uint32_t mode);

}  // namespace larder::http

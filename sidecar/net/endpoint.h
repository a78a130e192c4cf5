// Endpoint and TlsOptions: the place of a server, and the files and names of TLS. Plain data;
// thread-compatible.
#pragma once

#include <cstdint>
#include <string>

namespace larder::net {

struct Endpoint {
  std::string host;  // a name, or an IPv4 or IPv6 address
  std::uint16_t port = 0;
  std::string unix_path = {};  // in place of host and port
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// "host:6379", "[::1]:6379", "/run/redis.sock".
inline std::string text_of(const Endpoint& endpoint) {
  if (!endpoint.unix_path.empty()) return endpoint.unix_path;
  const bool six = endpoint.host.find(':') != std::string::npos;
  return (six ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

// Files are read at each connect, so that rotated files need no restart.
struct TlsOptions {
  bool enabled = false;
  std::string ca_file;    // PEM: only these authorities; empty: the authorities of the system
  std::string cert_file;  // of this side, with key_file; both or none
  std::string key_file;   // without a passphrase
  // The name in the certificate of the other side; empty: the host of the connection.
  std::string server_name;
  // Between larderd: only a subject alternative name counts, and the connection ends with the first
  // certificate of the other side that expires.
  bool strict = false;
  std::string section = "backend";  // the section of the configuration with these files, for errors
};

}  // namespace larder::net

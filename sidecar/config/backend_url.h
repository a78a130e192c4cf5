// Where a shared backend is, in one line. Pure; thread-safe.
//
//     redis://[user@]host[:port][/database]     rediss:// for TLS; valkey:// and valkeys:// are the same
//     unix:///path/of/its/socket
//
// An IPv6 address stands in brackets; what no URL may hold in a user's name is written as %40.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shim/protocol/status.h"

namespace larder::config {

struct BackendUrl {
  bool tls = false;
  std::string host;
  std::uint16_t port = 6379;
  std::string unix_path;  // in place of host and port
  std::string user;
  std::uint32_t database = 0;
};

// A password in it is refused. An error is a half sentence, "holds a password: ...", that says nothing of what stands in the URL but
// its scheme: who forgot the file may have written the password anywhere.
Result<BackendUrl> parse_backend_url(std::string_view text);

}  // namespace larder::config

// A listening Unix socket: for engines, and for the admin API. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "shim/base/fd.h"

namespace larder::base {

struct UnixSocket {
  std::string path;  // its folder exists
  std::uint32_t mode = 0;
  int type = 0;  // SOCK_SEQPACKET or SOCK_STREAM
  int backlog = 0;
  // In errors: the configuration key; what to do where somebody else has the path, and where it cannot be made.
  const char* key = "";
  const char* instead = "";
  const char* hint = "";
};

// Binds and listens, non-blocking. A socket file that nobody listens at is replaced; kAlreadyExists if somebody does, or if it is
// another kind of file. kInvalidArgument: the path does not fit an address.
Result<Fd> listen_unix(const UnixSocket& wanted);

}  // namespace larder::base

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
  // For errors: the configuration key; the remedy if another process uses the path; the remedy if
  // the socket cannot be made.
  const char* key = "";
  const char* instead = "";
  const char* hint = "";
};

// Binds and listens, non-blocking. Replaces a socket file without a listener. kAlreadyExists:
// another process listens there, or the file is no socket. kInvalidArgument: the path does not fit
// an address.
Result<Fd> listen_unix(const UnixSocket& wanted);

}  // namespace larder::base

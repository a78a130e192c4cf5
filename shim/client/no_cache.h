// The engine's log line while there is no session: the problem in a user's words, and the remedy.
#pragma once

#include <string>

#include "shim/base/status.h"

namespace larder::client {

// `why`: the status of the failed attempt. The status text names the socket.
inline std::string no_cache_line(const Status& why) {
  const char* remedy = "";
  switch (why.code()) {
    case Code::kUnavailable:
      remedy =
          ". Is larderd running? LARDER_SOCKET, or the engine's option socket, names another "
          "socket";
      break;
    case Code::kDeadlineExceeded:
      remedy = ". larderd is stopped or very busy; larderctl status tells more";
      break;
    case Code::kUnsupported:
      remedy = ". Install larderd and the engine's Larder from one release";
      break;
    case Code::kInvalidArgument:
    case Code::kInternal:
      remedy =
          ". Does LARDER_SOCKET, or the option socket, name larderd's socket for engines, without "
          ".admin?";
      break;
    case Code::kResourceExhausted:
      remedy = ". A limit of larderd, of this process (ulimit -n) or of its memory is reached";
      break;
    default: break;  // the status text names the remedy, or no remedy is known
  }
  return "no cache for now, trying on: " + why.text() + remedy;
}

}  // namespace larder::client

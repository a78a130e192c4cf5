// How the log calls a session.
#pragma once

#include <string>

#include "sidecar/ipc/connection.h"

namespace larder::ipc {

inline std::string session_name(const Connection& connection) {
  const std::string& engine = connection.protocol.engine();
  return "session " + std::to_string(connection.protocol.facts().number) + (engine.empty() ? "" : " (" + engine + ")");
}

}  // namespace larder::ipc

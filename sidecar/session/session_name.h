// The name of a session in log lines.
#pragma once

#include <string>

#include "sidecar/session/connection.h"

namespace larder::session {

inline std::string session_name(const SessionProtocol& session) {
  return "session " + std::to_string(session.facts().number) +
         (session.engine().empty() ? "" : " (" + session.engine() + ")");
}

inline std::string session_name(const Connection& connection) {
  return session_name(connection.protocol);
}

}  // namespace larder::session

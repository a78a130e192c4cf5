// `larderd --supervise ADDRESS`: a supervisor (sidecar/supervisor) whose child is this same
// program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shim/base/fd.h"
#include "shim/base/status.h"
#include "sidecar/config/loader.h"

namespace larder {

// Runs larderd with `arguments` until `signals` gives SIGTERM or SIGINT. Answers probes at each of
// `addresses`: HOST:PORT, or the path of a Unix socket. Returns the exit status of larderd, or an
// error if the supervisor could not start.
Result<int> supervise(const std::vector<std::string>& addresses, std::vector<std::string> arguments,
                      const std::optional<std::string>& config_file,
                      const config::Environment& environment, const Fd& signals);

}  // namespace larder

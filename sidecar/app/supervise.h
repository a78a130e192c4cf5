// What `larderd --supervise ADDRESS` does: a supervisor (sidecar/supervisor) whose child is this same program.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shim/base/fd.h"
#include "shim/base/status.h"
#include "sidecar/config/loader.h"

namespace larder {

// Runs larderd with `arguments` until SIGTERM or SIGINT, from `signals`; probes are answered at each of `addresses`: HOST:PORT, or the
// path of a Unix socket. Returns larderd's exit status. An error: it could not begin.
Result<int> supervise(const std::vector<std::string>& addresses, std::vector<std::string> arguments,
                      const std::optional<std::string>& config_file, const config::Environment& environment, const Fd& signals);

}  // namespace larder

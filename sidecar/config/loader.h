// Loads a Config strictly: unknown or duplicate keys, wrong units, values out of range are errors that name file, line and what
// is allowed. Pure but for reading the file. Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shim/protocol/status.h"
#include "sidecar/config/config.h"

namespace larder::config {

using Environment = std::map<std::string, std::string>;

// This process's environment.
Environment process_environment();

// Variables named LARDER_... that neither larderd nor anything else of Larder reads: misspelt, most likely. To be warned of, since
// a Service of Kubernetes called larder makes such names as well (those with a known pattern are left out).
std::vector<std::string> unknown_variables(const Environment& environment);

// `file` wins over $LARDER_CONFIG_FILE; with neither, defaults and environment alone.
Result<Config> load(const std::optional<std::string>& file, const Environment& environment);

}  // namespace larder::config

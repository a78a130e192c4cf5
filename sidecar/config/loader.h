// Loads a Config strictly: unknown or duplicate keys, wrong units, and values out of range are
// errors that name file, line and the allowed values. Pure except for reading the file.
// Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shim/base/status.h"
#include "sidecar/config/config.h"

namespace larder::config {

using Environment = std::map<std::string, std::string>;

// This process's environment.
Environment process_environment();

// The variables LARDER_... that no program of Larder reads, most likely misspelt. Worth a warning
// and not an error: Kubernetes sets such names too, for a Service called larder. Names with the
// patterns of Kubernetes are left out.
std::vector<std::string> unknown_variables(const Environment& environment);

// The configuration file to read: `file` (from the command line), else $LARDER_CONFIG_FILE. Empty:
// there is no file.
std::optional<std::string> file_of(const std::optional<std::string>& file,
                                   const Environment& environment);

// Defaults, then file_of(), then the environment; the last one wins.
Result<Config> load(const std::optional<std::string>& file, const Environment& environment);

// The text of one key from another source, such as an option of a command line. `name`: the name of
// the option that the user knows, for errors.
struct Value {
  std::string key, text, name;
};
// The defaults with these values, without a file or the environment. REQUIRES: each key exists.
Result<Config> load(std::span<const Value> values);

}  // namespace larder::config

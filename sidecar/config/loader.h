// Loads a Config strictly: unknown or duplicate keys, wrong units, values out of range are errors that name file, line and what
// is allowed. Pure but for reading the file. Thread-safe.
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

// Variables named LARDER_... that neither larderd nor anything else of Larder reads: misspelt, most likely. To be warned of, since
// a Service of Kubernetes called larder makes such names as well (those with a known pattern are left out).
std::vector<std::string> unknown_variables(const Environment& environment);

// The configuration file that counts: `file` (of the command line), else $LARDER_CONFIG_FILE. Nothing: there is none.
std::optional<std::string> file_of(const std::optional<std::string>& file, const Environment& environment);

// Defaults, then file_of(), then the environment; a later one wins.
Result<Config> load(const std::optional<std::string>& file, const Environment& environment);

// One key's text from elsewhere, an option of a command line, say. `name`: what the user knows it by, for errors.
struct Value {
  std::string key, text, name;
};
// With these over the defaults and nothing else. REQUIRES: each is of a key that there is.
Result<Config> load(std::span<const Value> values);

}  // namespace larder::config

// Reads the settings of LMCache: the file, and the LMCACHE_* variables, which win over the file as
// in LMCache
// 0.5. Strict: invalid YAML and duplicate keys are errors with file and line. Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shim/base/status.h"

namespace larder::ctl {

struct LmcacheSetting {
  std::string key;    // "chunk_size", "extra_config.use_odirect"
  std::string text;   // unchanged, except for one removed pair of quotes
  std::string where;  // "lmcache.yaml:3", "LMCACHE_CHUNK_SIZE"
};

// Settings in the order of the file, then of the environment. Reads `file`, else the file that
// LMCACHE_CONFIG_FILE names, else only the variables.
Result<std::vector<LmcacheSetting>> read_lmcache_settings(
    const std::optional<std::string>& file, const std::map<std::string, std::string>& environment);

}  // namespace larder::ctl

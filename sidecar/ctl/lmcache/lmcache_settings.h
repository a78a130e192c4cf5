// Reads the settings of an LMCache: its file, and the LMCACHE_* variables, which win over the file as they do in LMCache 0.5.
// Strict: what is no valid YAML, or stands twice, is an error that names file and line. Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shim/base/status.h"

namespace larder::ctl {

struct LmcacheSetting {
  std::string key;    // "chunk_size", "extra_config.use_odirect"
  std::string text;   // as given; without a pair of quotes around it
  std::string where;  // "lmcache.yaml:3", "LMCACHE_CHUNK_SIZE"
};

// In the file's order, then the environment's. `file`, else what LMCACHE_CONFIG_FILE names; with neither, the variables alone.
Result<std::vector<LmcacheSetting>> read_lmcache_settings(const std::optional<std::string>& file,
                                                          const std::map<std::string, std::string>& environment);

}  // namespace larder::ctl

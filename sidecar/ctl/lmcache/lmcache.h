// From LMCache's settings to Larder's configuration: what has a counterpart as YAML that larderd takes, all else as comments that
// say what becomes of it. Passwords are never shown. Pure; thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "shim/base/status.h"
#include "sidecar/ctl/lmcache/lmcache_settings.h"

namespace larder::ctl {

struct ImportedLmcache {
  std::string yaml;          // with the comments
  std::size_t unserved = 0;  // settings that Larder does not serve: the user should read the comments
};

// An error names the setting, where it stands and what is wrong: a value that is none, or a transport between engines.
Result<ImportedLmcache> import_lmcache(std::span<const LmcacheSetting> settings);

}  // namespace larder::ctl

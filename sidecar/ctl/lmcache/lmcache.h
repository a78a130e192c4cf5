// Converts settings of LMCache into a configuration of Larder. Settings with a counterpart become
// YAML, and the field of larderd checks each value. Every other setting becomes a comment with
// file, line and the consequence; no setting is dropped silently. Passwords are never shown. Pure;
// thread-safe.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "shim/base/status.h"
#include "sidecar/ctl/lmcache/lmcache_settings.h"

namespace larder::ctl {

struct ImportedLmcache {
  std::string yaml;          // with comments
  std::size_t unserved = 0;  // settings that Larder does not serve; the comments explain them
};

// An error names the setting, its place and the fault: a malformed value, or a transport between
// engines.
Result<ImportedLmcache> import_lmcache(std::span<const LmcacheSetting> settings);

}  // namespace larder::ctl

// Parsers for values of LMCache's settings. Pure; thread-safe.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "shim/base/status.h"
#include "sidecar/base/text.h"
#include "sidecar/ctl/lmcache/lmcache_settings.h"

namespace larder::ctl {

bool is_one_of(std::string_view text, const auto& words) {
  return std::ranges::find(words, base::lower(text)) != std::end(words);
}

// "FILE:3: KEY 'TEXT' WHY". Not for a setting that may hold a password.
Status refuse(const LmcacheSetting& setting, const std::string& why);

// Whether the text is empty, null, none, or an empty list or map.
bool is_nothing(std::string_view text);

Result<bool> read_bool(const LmcacheSetting& setting);

// LMCache writes sizes as a number of GiB, perhaps with a fraction. The result is in whole MiB,
// rounded up.
Result<std::string> read_gib(const LmcacheSetting& setting);

}  // namespace larder::ctl

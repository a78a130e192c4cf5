// The table of all settings of LMCache up to version 0.5.6, keys and variables, with the
// counterpart of each setting in Larder. Settings that lmcache.cc converts are included. Pure;
// thread-safe.
#pragma once

#include <span>
#include <string_view>

namespace larder::ctl {

enum class Counterpart {
  kConverted,  // lmcache.cc converts the setting
  kAlways,     // no setting needed: Larder always does the same, or does not need it
  kNone,
};

struct LmcacheKey {
  std::string_view key;  // as in LMCache's YAML; the variable is LMCACHE_ and the key in capitals
  Counterpart counterpart;
  std::string_view words;  // the remark; empty for kConverted
  // A further value without a remark, besides values that switch a feature off.
  std::string_view same = "";
};

std::span<const LmcacheKey> lmcache_keys();

// nullptr if LMCache has no such key. A key of `extra_config` has a dot:
// "extra_config.use_odirect".
const LmcacheKey* find_lmcache_key(std::string_view key);

// The most similar key, or "" if no key is similar.
std::string_view nearest_lmcache_key(std::string_view key);

}  // namespace larder::ctl

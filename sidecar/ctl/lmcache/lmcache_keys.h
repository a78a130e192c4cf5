// What becomes of each setting of LMCache, as a table: its keys and variables up to version 0.5.6, and what stands for them in
// Larder. Those that lmcache.cc converts are in it too. Pure; thread-safe.
#pragma once

#include <span>
#include <string_view>

namespace larder::ctl {

enum class Counterpart {
  kConverted,  // lmcache.cc says how
  kAlways,     // nothing to set: Larder does it, or does not need it
  kNotYet,     // will have a counterpart; this release does not serve it
  kNone,
};

struct LmcacheKey {
  std::string_view key;  // as in LMCache's YAML; the variable is LMCACHE_ and the key in capitals
  Counterpart counterpart;
  std::string_view words;      // of kConverted: empty
  std::string_view same = "";  // a value that needs no word, besides those that switch something off
};

std::span<const LmcacheKey> lmcache_keys();

// nullptr when LMCache has no such key. What stands in `extra_config` has a dot: "extra_config.use_odirect".
const LmcacheKey* find_lmcache_key(std::string_view key);

// The key that was most likely meant, "" when none is near.
std::string_view nearest_lmcache_key(std::string_view key);

}  // namespace larder::ctl

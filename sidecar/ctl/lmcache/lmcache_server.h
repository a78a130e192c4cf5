// Reads the command line of an LMCache server: `lmcache server --l1-size-gb 20 --l2-adapter
// '{"type": "resp", "host": "h", "port": 6379}'`. An option with a key in LMCache's file becomes a
// setting of that key. Any other option keeps its name ("--max-workers"); a field of an adapter is
// named "--l2-adapter.FIELD". Pure; thread-safe.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "shim/base/status.h"
#include "sidecar/ctl/lmcache/lmcache_settings.h"

namespace larder::ctl {

// `words`: with or without the program before the first option. `environment`: an adapter of type
// resp takes missing fields from LMCACHE_RESP_*. kInvalidArgument names the option: an adapter that
// is no JSON object, or has no type.
Result<std::vector<LmcacheSetting>> read_lmcache_server(
    std::span<const std::string> words, const std::map<std::string, std::string>& environment);

}  // namespace larder::ctl

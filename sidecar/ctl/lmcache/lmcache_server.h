// Reads the command line of an LMCache server: `lmcache server --l1-size-gb 20 --l2-adapter '{"type": "resp", "host": "h", "port": 6379}'`.
// What LMCache's file has a key for becomes a setting of that key; any other option stands under its own name ("--max-workers"), a field
// of an adapter under "--l2-adapter.FIELD". Pure; thread-safe.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "shim/base/status.h"
#include "sidecar/ctl/lmcache/lmcache_settings.h"

namespace larder::ctl {

// `words`: with or without the program before the first option. `environment`: an adapter of type resp takes from LMCACHE_RESP_* what it
// does not say. kInvalidArgument names the option: an adapter that is no JSON object, or has no type.
Result<std::vector<LmcacheSetting>> read_lmcache_server(std::span<const std::string> words,
                                                        const std::map<std::string, std::string>& environment);

}  // namespace larder::ctl

// What a server says of itself, into ServerFacts: known words, numbers, addresses, nothing else. Pure; thread-safe.
#pragma once

#include <string_view>

#include "sidecar/tiers/remote/resp.h"
#include "sidecar/tiers/remote/server_check.h"

namespace larder::remote {

void take_hello(const Reply& hello, ServerFacts& facts);
// Of any sections of INFO.
void take_info(std::string_view info, ServerFacts& facts);
// The answer to CONFIG GET of one name.
void take_config(const Reply& config, ServerFacts& facts);
// The answer to SENTINEL MASTERS; how the one of that name is watched.
void take_masters(const Reply& masters, std::string_view name, ServerFacts& facts);

}  // namespace larder::remote

// Replies of a server, parsed into ServerFacts: known words, numbers and addresses only. Pure;
// thread-safe.
#pragma once

#include <string_view>

#include "sidecar/backend_check/server_check.h"
#include "sidecar/tiers/remote/resp/wire.h"

namespace larder::backend_check {

void take_hello(const remote::Reply& hello, ServerFacts& facts);
// Of any sections of INFO.
void take_info(std::string_view info, ServerFacts& facts);
// The answer to CONFIG GET of one name.
void take_config(const remote::Reply& config, ServerFacts& facts);
// The answer to SENTINEL MASTERS: quorum, Sentinels and replicas of the master with this name.
void take_masters(const remote::Reply& masters, std::string_view name, ServerFacts& facts);

}  // namespace larder::backend_check

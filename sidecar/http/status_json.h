// JSON that the HTTP room answers with: the only place of the room that knows nlohmann/json. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "sidecar/stats/stats.h"

namespace larder::http {

// The body of /v1/status.
std::string status_json(const stats::Stats& stats, bool healthy, bool ready);

// {"dropped": N}, {"error": TEXT}.
std::string dropped_json(std::uint64_t chunks);
std::string error_json(const std::string& text);

}  // namespace larder::http

// Log lines about the backend. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "sidecar/tiers/remote/options.h"

namespace larder::remote {

// Logs `text` behind the address of the backend. `kind`: a fixed name; the rate of log lines is
// bounded by kind.
void say(const RemoteOptions& options, std::string_view kind, const std::string& text);

}  // namespace larder::remote

// `larderctl simulate`: the hits of a recorded trace with several memory sizes and policies, to
// decide how much memory to buy. Thread-safe.
#pragma once

#include <string>

#include "shim/base/status.h"
#include "sidecar/ctl/arguments.h"

namespace larder::ctl {

// Returns a table, or JSON with --output json. Without --sizes: parts of the bytes of all chunks.
Result<std::string> simulate(const Arguments& arguments);

}  // namespace larder::ctl

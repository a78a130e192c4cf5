// larderctl simulate: what a recorded trace would have found in memories of several sizes, under several policies: how much memory
// to buy. Thread-safe.
#pragma once

#include <string>

#include "shim/base/status.h"
#include "sidecar/ctl/arguments.h"

namespace larder::ctl {

// A table, or JSON with --output json. Without --sizes: parts of what keeping all would take.
Result<std::string> simulate(const Arguments& arguments);

}  // namespace larder::ctl

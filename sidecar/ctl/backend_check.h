// `larderctl backend check`: asks the Redis or Valkey that a URL names, or the configuration, as larderd would, and says whether
// larderd can use it, how fast it is, what is set wrongly and what to do. Thread-compatible.
#pragma once

#include "shim/base/status.h"
#include "sidecar/ctl/arguments.h"
#include "sidecar/ctl/outcome.h"

namespace larder::ctl {

// Ends with 0: well; 1: it works, with warnings that matter; 2: larderd cannot use it. An error: it was not asked, since the words or
// the configuration are wrong. Takes 20 s at most.
Result<Outcome> check_backend(const Arguments& arguments);

}  // namespace larder::ctl

// `larderctl backend check`: tests the Redis or Valkey of a URL or of the configuration as larderd
// would. The report says whether larderd can use the server, and gives the speed, wrong settings
// and remedies. Thread-compatible.
#pragma once

#include "shim/base/status.h"
#include "sidecar/ctl/arguments.h"
#include "sidecar/ctl/outcome.h"

namespace larder::ctl {

// Also the status of errors before the check.
inline constexpr int kExitUnusable = 2;

// Exit status 0: good; 1: usable, with warnings; 2: larderd cannot use the server. An error: wrong
// words or a wrong configuration, before any question to the server. Takes 20 s at most.
Result<Outcome> check_backend(const Arguments& arguments);

}  // namespace larder::ctl

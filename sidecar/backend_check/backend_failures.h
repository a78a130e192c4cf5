// The failure that ended the check of a server, with an id for programs and a remedy. Pure;
// thread-safe.
#pragma once

#include "sidecar/backend_check/backend_diagnostics.h"

namespace larder::backend_check {

// REQUIRES: seen.facts.ended is not kNone.
Diagnostic failure_finding(const Seen& seen);

}  // namespace larder::backend_check

// Why a server could not be asked to the end: each reason with a name for programs and what to do. Pure; thread-safe.
#pragma once

#include "sidecar/backend_check/backend_diagnostics.h"

namespace larder::backend_check {

// REQUIRES: seen.facts.ended is not kNone.
Diagnostic failure_finding(const Seen& seen);

}  // namespace larder::backend_check

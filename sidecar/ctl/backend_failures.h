// Why a server could not be asked to the end: each reason with a name for programs and what to do. Pure; thread-safe.
#pragma once

#include "sidecar/ctl/backend_findings.h"

namespace larder::ctl {

// REQUIRES: seen.facts.ended is not kNone.
Finding failure_finding(const Seen& seen);

}  // namespace larder::ctl

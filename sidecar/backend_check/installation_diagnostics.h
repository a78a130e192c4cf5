// What is wrong with a backend as a whole, of whichever mode: of each of its servers, of its Sentinels, of its Cluster. What holds
// for several servers is said once. Pure; thread-safe.
#pragma once

#include "sidecar/backend_check/backend_diagnostics.h"
#include "sidecar/backend_check/installation_check.h"

namespace larder::backend_check {

// The heaviest first. `processors`: of this machine.
std::vector<Diagnostic> findings_of(const config::BackendConfig& backend, const InstallationFacts& facts, unsigned processors);

}  // namespace larder::backend_check

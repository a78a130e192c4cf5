// The faults of a whole backend in any mode: of each server, of the Sentinels, of the Cluster. A
// fault of several servers is one diagnostic with several addresses. Pure; thread-safe.
#pragma once

#include "sidecar/backend_check/backend_diagnostics.h"
#include "sidecar/backend_check/installation_check.h"

namespace larder::backend_check {

// The heaviest first. `processors`: of this machine.
std::vector<Diagnostic> findings_of(const config::BackendConfig& backend,
                                    const InstallationFacts& facts, unsigned processors);

}  // namespace larder::backend_check

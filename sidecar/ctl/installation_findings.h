// What is wrong with a backend as a whole, of whichever mode: of each of its servers, of its Sentinels, of its Cluster. What holds
// for several servers is said once. Pure; thread-safe.
#pragma once

#include "sidecar/ctl/backend_findings.h"
#include "sidecar/tiers/remote/installation_check.h"

namespace larder::ctl {

// The heaviest first. `processors`: of this machine.
std::vector<Finding> findings_of(const config::BackendConfig& backend, const remote::InstallationFacts& facts,
                                 unsigned processors);

}  // namespace larder::ctl

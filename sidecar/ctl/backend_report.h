// What `larderctl backend check` prints: for people, and for programs. Pure; thread-safe.
#pragma once

#include <span>
#include <string>

#include "sidecar/ctl/backend_findings.h"
#include "sidecar/tiers/remote/installation_check.h"

namespace larder::ctl {

std::string backend_screen(const config::BackendConfig& backend, const remote::InstallationFacts& facts,
                           std::span<const Finding> findings);
std::string backend_json(const config::BackendConfig& backend, const remote::InstallationFacts& facts,
                         std::span<const Finding> findings);

}  // namespace larder::ctl

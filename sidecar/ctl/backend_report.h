// The output of `larderctl backend check`: a screen for people, JSON for programs. Pure;
// thread-safe.
#pragma once

#include <span>
#include <string>

#include "sidecar/backend_check/backend_diagnostics.h"
#include "sidecar/backend_check/installation_check.h"

namespace larder::ctl {

std::string backend_screen(const config::BackendConfig& backend,
                           const backend_check::InstallationFacts& facts,
                           std::span<const backend_check::Diagnostic> findings);
std::string backend_json(const config::BackendConfig& backend,
                         const backend_check::InstallationFacts& facts,
                         std::span<const backend_check::Diagnostic> findings);

}  // namespace larder::ctl

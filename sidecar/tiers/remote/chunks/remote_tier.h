// RemoteTier: chunks in a Redis or Valkey server, behind the interface of every tier. One thread of its own runs a RemoteEngine;
// commands go in and messages come out under one mutex that is never held over I/O.
#pragma once

#include <memory>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/tier.h"

namespace larder::remote {

// Errors name the option's field: it is wrong by itself. A server that is not there is none, the tier is degraded until it is. The
// clock outlives the tier. Destroying it closes it, within a second.
Result<std::unique_ptr<tiers::Tier>> open_remote_tier(const base::Clock& clock, const RemoteOptions& options);

}  // namespace larder::remote

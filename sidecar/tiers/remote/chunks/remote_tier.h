// RemoteTier: chunks in a Redis or Valkey, behind the interface of every tier. A thread runs a
// RemoteEngine. Commands go in and messages come out under one mutex, which is never held during
// I/O.
#pragma once

#include <memory>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/tier.h"

namespace larder::remote {

// Errors name the field of a wrong option. An unreachable server is no error: the tier is degraded
// until the server is reachable. The clock outlives the tier. The destructor closes the tier within
// a second.
Result<std::unique_ptr<tiers::Tier>> open_remote_tier(const base::Clock& clock,
                                                      const RemoteOptions& options);

}  // namespace larder::remote

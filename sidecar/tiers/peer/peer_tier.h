// PeerTier: chunks in the memory of other larderd of the pool, behind the interface of every tier.
// A thread runs a PeerEngine. The tier only reads: a put is done at once and stores nothing.
#pragma once

#include <memory>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/peer/options.h"
#include "sidecar/tiers/tier.h"

namespace larder::peer {

// Errors name the field of a wrong option. A member that cannot be reached is no error. The clock
// outlives the tier. The destructor closes the tier within a second.
Result<std::unique_ptr<tiers::Tier>> open_peer_tier(const base::Clock& clock,
                                                    const ClientOptions& options);

}  // namespace larder::peer

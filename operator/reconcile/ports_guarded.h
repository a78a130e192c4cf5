// The condition PortsGuarded of a pool with a backend of type Mooncake: whether a NetworkPolicy
// guards the ports of Mooncake, which have no password. Pure; thread-safe.
#pragma once

#include "operator/reconcile/conditions.h"
#include "operator/reconcile/pool_facts.h"

namespace larder::reconcile {

// REQUIRES: facts.pool.
Condition ports_guarded(const PoolFacts& facts);

}  // namespace larder::reconcile

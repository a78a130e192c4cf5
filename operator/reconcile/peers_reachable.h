// The condition PeersReachable of a pool with peers. Pure; thread-safe.
#pragma once

#include "operator/reconcile/conditions.h"
#include "operator/reconcile/pool_facts.h"

namespace larder::reconcile {

// REQUIRES: facts.pool->spec.peers.
Condition peers_reachable(const PoolFacts& facts);

}  // namespace larder::reconcile

// The condition PortsGuarded of a pool with a plug-in that listens, e.g. larder-mooncake: whether a
// NetworkPolicy guards the ports of the plug-in, which have no password. Pure; thread-safe.
#pragma once

#include "operator/api/names.h"
#include "operator/reconcile/conditions.h"
#include "operator/reconcile/pool_facts.h"

namespace larder::reconcile {

// REQUIRES: facts.pool, and `plugin` listens.
Condition ports_guarded(const PoolFacts& facts, const api::Plugin& plugin);

}  // namespace larder::reconcile

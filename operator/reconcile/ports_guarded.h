// The condition PortsGuarded of a pool with a listening plug-in: whether a NetworkPolicy guards the
// plug-in's ports, which have no password. Pure; thread-safe.
#pragma once

#include "operator/api/names.h"
#include "operator/reconcile/conditions.h"
#include "operator/reconcile/pool_facts.h"

namespace larder::reconcile {

// REQUIRES: facts.pool, and `plugin` listens.
Condition ports_guarded(const PoolFacts& facts, const api::Plugin& plugin);

}  // namespace larder::reconcile

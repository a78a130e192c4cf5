// CacheServes: whether larderd does all that it was set up for, by its own words: an engine that it
// refuses, memory that it does not get, a backend or a disk that refuses chunks. Of a pool by its
// pods, of a backend by the pods that read from it. Harmless for Ready: engines serve, and the rest
// of the cache works. Pure; thread-safe.
#pragma once

#include "operator/reconcile/backend_facts.h"
#include "operator/reconcile/conditions.h"
#include "operator/reconcile/pool_facts.h"

namespace larder::reconcile {

Condition cache_serves(const PoolFacts& facts);
Condition cache_serves(const SidecarsView& sidecars);

}  // namespace larder::reconcile

// A backend's status from the facts: conditions, server, version, role, memory, latency. Pure;
// thread-safe.
//
// Ready           pools can use the backend; otherwise reason and remedy
// Reachable       the operator reaches the servers, and not all sidecars fail to; for an operator
//                 without permission to read the Secrets, only the sidecars count
// SecretMissing   a Secret of the backend does not exist (True is bad)
// ObjectsApplied  managed backends: StatefulSet, Service and the others are as wanted
// WellSet         the servers have settings for a cache (maxmemory, eviction); False is a warning
#pragma once

#include <string>
#include <vector>

#include "operator/reconcile/backend_facts.h"
#include "operator/reconcile/conditions.h"

namespace larder::reconcile {

std::vector<Condition> backend_conditions(const BackendFacts& facts);

// status of the CacheBackend. `before`: the current object. The written latency changes only by
// more than a factor of two.
api::Object backend_status(const BackendFacts& facts, const api::Object& before,
                           const std::string& now);

}  // namespace larder::reconcile

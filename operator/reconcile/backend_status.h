// A backend's status from the facts: conditions, server, version, role, memory, latency. Pure; thread-safe.
//
// Ready           pools can use it; else why not and what to do
// Reachable       the operator reaches its servers, and not every sidecar fails to; where it may not read the Secrets, the sidecars alone
// SecretMissing   a Secret that it names is not there (True is bad)
// ObjectsApplied  of a managed one: StatefulSet, Service and the rest stand as wanted
// WellSet         its servers are set as a cache should be (maxmemory, eviction); False is a warning, no failure
#pragma once

#include <string>
#include <vector>

#include "operator/reconcile/backend_facts.h"
#include "operator/reconcile/conditions.h"

namespace larder::reconcile {

std::vector<Condition> backend_conditions(const BackendFacts& facts);

// status of the CacheBackend. `before`: the object as it stands. The latency stays as it is there while it is within a factor of two.
api::Object backend_status(const BackendFacts& facts, const api::Object& before, const std::string& now);

}  // namespace larder::reconcile

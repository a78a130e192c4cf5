// A pool's conditions, judged from the facts alone. Pure; thread-safe.
//
// Ready             the pool works; otherwise reason and message of the first failing condition
// SizesFit          the sizes fit one another and the limits of the container
// ObjectsApplied    placement Node: ConfigMap and DaemonSet are as wanted
// BackendReady      with a backendRef: the backend exists and is reachable
// SecretMissing     with a backendRef: a Secret of the backend does not exist (True is bad)
// HugepagesMissing  with hugepages: pods wait for pages that no node has free (True is bad)
// GpuVisible        with transfer: sidecar: every larderd sees a GPU
// PeersReachable    with peers: every larderd reaches the others
// PodsReady         larderd runs in every pod of the pool
// PodsUpToDate      no pod needs a restart for a change since its start
// EnginesAttached   placement Sidecar: every larderd that answered has an engine
// CacheServes       no larderd has a reason against an engine, its memory, its backend or its disk
// Helping           lookups of prompts found chunks
#pragma once

#include <vector>

#include "operator/reconcile/conditions.h"
#include "operator/reconcile/pool_facts.h"

namespace larder::reconcile {

std::vector<Condition> pool_conditions(const PoolFacts& facts);

// Whether pods wait for huge pages. The caller then reads the nodes.
bool waits_for_hugepages(const PoolFacts& facts);

}  // namespace larder::reconcile

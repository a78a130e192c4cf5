// How far the NetworkPolicies of a namespace select the pods with guarded ports
// (desired/port_guard.h).
// Pure; thread-safe.
#pragma once

#include <vector>

#include "operator/desired/port_guard.h"
#include "operator/k8s/informer.h"
#include "operator/reconcile/pod_view.h"

namespace larder::reconcile {

// `policies`: of the pool's namespace. `pods`: of the pool; only pods with api::kPeersLabel or
// the label of a plug-in that listens count.
desired::Isolation isolation_of(const api::CachePool& pool,
                                const std::vector<k8s::ObjectPtr>& policies,
                                const std::vector<PodView>& pods);

// Removes fields of a NetworkPolicy of another writer that isolation_of() does not read.
void trim_policy(api::Object& policy);

}  // namespace larder::reconcile

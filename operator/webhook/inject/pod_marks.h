// What an injected pod says in labels and annotations: what was injected, what the pool wants there, and which volumes others may lose.
//
// Pure; thread-safe; never throws.
#pragma once

#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

api::Object& annotations_of(api::Object& pod);

// Version, pool, larderd's configuration and its hash. `input.pool` as the pool is, without what this pod changes of it.
// REQUIRES: wrong_form(pod) found nothing, input.pool is there.
void mark_injected(api::Object& pod, const Input& input);

// Labels and annotations of the pool's spec.injection, where the pod has none of the name.
void add_pool_marks(api::Object& pod, const api::CachePool& pool);

// Our volumes hold a cache, a payload and sockets, and nothing that must be kept. The cluster-autoscaler moves a pod with a local volume
// only if an annotation names that volume; Velero's backup of files leaves out what another annotation names. Lists with commas, to
// which ours are added. `before`: the pod without them. REQUIRES: all volumes are there.
void mark_volumes(api::Object& pod, const api::Object& before);

}  // namespace larder::webhook

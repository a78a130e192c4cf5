// Labels and annotations of an injected pod: the injection, the pool's additions, and the volumes
// that other controllers may lose.
//
// Pure; thread-safe; never throws.
#pragma once

#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

api::Object& annotations_of(api::Object& pod);

// Writes version, pool, larderd's configuration and hash. `input.pool`: without overrides of this
// pod. REQUIRES: wrong_form(pod) is "", and input.pool exists.
void mark_injected(api::Object& pod, const Input& input);

// Adds labels and annotations of the pool's spec.injection under names that the pod does not use.
void add_pool_marks(api::Object& pod, const api::CachePool& pool);

// Larder's volumes hold a cache, a payload and sockets, which may be lost. The cluster-autoscaler
// moves a pod with a local volume only if an annotation names the volume. Velero leaves the volumes
// of another annotation out of its backup. Adds Larder's volumes to both lists. `before`: the pod
// without Larder's volumes. REQUIRES: the volumes were added.
void mark_volumes(api::Object& pod, const api::Object& before);

}  // namespace larder::webhook

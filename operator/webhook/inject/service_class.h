// Resources of larderd that follow from the pod's. A Guaranteed pod (exclusive CPUs, evicted last)
// stays Guaranteed. In a pod whose containers all have a cpu limit, as a ResourceQuota for
// `limits.cpu` requires, the added containers have one too. The same holds for ephemeral storage,
// which the kubelet limits for the pod as a whole.
//
// Pure; thread-safe; never throws.
#pragma once

#include <cstdint>

#include "operator/api/object.h"

namespace larder::webhook {

// Whether every container, init containers too, has limits for cpu and memory, with requests that
// are equal or absent.
bool is_guaranteed(const api::Object& pod);

// Gives an added container Guaranteed resources. `wanted`: the pool's resources for the container,
// or null. The default is a bit more than one CPU, and not exclusive. With a smaller limit than one
// CPU, the kernel would pause the container during a copy.
void guarantee(api::Object& container, const api::Object& wanted);

// Whether every container, init containers too, has a cpu limit.
bool has_cpu_limits(const api::Object& pod);

// Gives an added container without a cpu limit one whole CPU, for the same reason, or its request
// if larger.
void limit_cpu(api::Object& container);

// Fits the limit of ephemeral storage of an added container to the pod. `added_bytes`: emptyDir
// volumes and logs that come with the container.
//
// The kubelet evicts a pod that uses more than the sum of its containers' limits, if at least one
// container has a limit. In a pod with a limit, the added container brings a limit of its own. In a
// pod without one, the limit of the pool becomes a request: the engine's files would count.
void fit_storage(api::Object& container, const api::Object& pod, std::uint64_t added_bytes);

}  // namespace larder::webhook

// Resources of larderd that follow from the pod's. A Guaranteed pod (exclusive CPUs, evicted last)
// stays Guaranteed. In a pod whose containers all have a cpu limit, as a ResourceQuota for
// `limits.cpu` requires, the added containers have one too.
//
// Pure; thread-safe; never throws.
#pragma once

#include "operator/api/object.h"

namespace larder::webhook {

// Whether every container, init containers too, has limits for cpu and memory, with requests that
// are equal or absent.
bool is_guaranteed(const api::Object& pod);

// Gives an added container Guaranteed resources. `wanted`: the pool's resources for the container,
// or null. The default is one whole CPU: with a smaller limit the kernel would pause the container
// during a copy.
void guarantee(api::Object& container, const api::Object& wanted);

// Whether every container, init containers too, has a cpu limit.
bool has_cpu_limits(const api::Object& pod);

// Gives an added container without a cpu limit one whole CPU, for the same reason, or its request
// if larger.
void limit_cpu(api::Object& container);

}  // namespace larder::webhook

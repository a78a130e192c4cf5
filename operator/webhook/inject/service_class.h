// What a pod's own resources ask of those of larderd: one that is Guaranteed (CPUs of its own, evicted last) stays so with larderd in it, and
// one whose containers all have a limit of cpu, as a ResourceQuota of `limits.cpu` wants it, has no container without.
//
// Pure; thread-safe; never throws.
#pragma once

#include "operator/api/object.h"

namespace larder::webhook {

// Every container, init containers too, has limits of cpu and memory, and requests that equal them or are absent.
bool is_guaranteed(const api::Object& pod);

// Gives one of our containers such resources. `wanted`: what the pool's user wrote for it, or null. Where he says nothing of cpu it
// is one whole CPU: as a limit anything less would make it wait in the middle of a copy.
void guarantee(api::Object& container, const api::Object& wanted);

// Every container, init containers too, has a limit of cpu.
bool has_cpu_limits(const api::Object& pod);

// Gives one of our containers a limit of cpu where it has none: one whole CPU for the same reason, or its request where that is more.
void limit_cpu(api::Object& container);

}  // namespace larder::webhook

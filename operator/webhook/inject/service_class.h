// The quality of service of a pod: one that is Guaranteed (CPUs of its own, evicted last) stays so with larderd in it.
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

}  // namespace larder::webhook

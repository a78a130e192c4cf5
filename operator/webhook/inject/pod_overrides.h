// What a pod's own annotations change of its pool, for this pod: larder.dev/requests.cpu, larder.dev/limits.memory and the like for
// larderd, larder.dev/payload.requests.cpu and the like for the container larder-payload.
//
// Pure; thread-safe; never throws.
#pragma once

#include "operator/api/cache_pool.h"

namespace larder::webhook {

// `pool` with the resources that the pod's annotations give to our containers. kUnsupported: an annotation is wrong, and what to write.
Result<api::CachePool> with_overrides(const api::Object& pod, api::CachePool pool);

}  // namespace larder::webhook

// Overrides of the pool by annotations of a pod: larder.dev/requests.cpu and the like for larderd,
// larder.dev/payload.requests.cpu and the like for the container larder-payload.
//
// Pure; thread-safe; never throws.
#pragma once

#include "operator/api/cache_pool.h"

namespace larder::webhook {

// `pool` with the resources from the pod's annotations. kUnsupported: a wrong annotation, and the
// text to write.
Result<api::CachePool> with_overrides(const api::Object& pod, api::CachePool pool);

}  // namespace larder::webhook

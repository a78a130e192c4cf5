// Overrides of the pool by annotations of a pod: larder.dev/requests.cpu, larder.dev/limits.memory
// and the like.
//
// Pure; thread-safe; never throws.
#pragma once

#include "operator/api/cache_pool.h"

namespace larder::webhook {

// `pool` with larderd's resources from the pod's annotations. kUnsupported: a wrong annotation, and
// the text to write.
Result<api::CachePool> with_overrides(const api::Object& pod, api::CachePool pool);

}  // namespace larder::webhook

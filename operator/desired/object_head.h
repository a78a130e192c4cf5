// The common start of the operator's objects: kind, name, labels and owner.
#pragma once

#include <string>
#include <string_view>

#include "operator/api/cache_backend.h"
#include "operator/api/cache_pool.h"

namespace larder::desired {

// Labels that select the pods of a pool's larderd or a backend's server. Injected pods have the
// pool's label without the component, so that no controller adopts an injected pod.
api::Object pod_labels(const api::CachePool& pool);
api::Object pod_labels(const api::CacheBackend& backend);

// apiVersion, kind and metadata. Kubernetes deletes the object with its pool or backend.
api::Object object_head(std::string_view api_version, std::string_view kind,
                        const api::CachePool& pool);
api::Object object_head(std::string_view api_version, std::string_view kind,
                        const api::CacheBackend& backend);

// "larder-POOL". Objects of a backend have the name api::managed_name().
std::string pool_name(const api::CachePool& pool);

}  // namespace larder::desired

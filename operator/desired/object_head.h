// What every object that the operator makes begins with: kind, name, labels, and the owner that it goes with.
#pragma once

#include <string>
#include <string_view>

#include "operator/api/cache_backend.h"
#include "operator/api/cache_pool.h"

namespace larder::desired {

// Of a pool's larderd, of a backend's server: the labels that select its pods. Injected pods have the pool's label too, but not the
// component, so that no controller takes one of them for its own.
api::Object pod_labels(const api::CachePool& pool);
api::Object pod_labels(const api::CacheBackend& backend);

// apiVersion, kind and metadata; goes when the pool or backend goes.
api::Object object_head(std::string_view api_version, std::string_view kind, const api::CachePool& pool);
api::Object object_head(std::string_view api_version, std::string_view kind, const api::CacheBackend& backend);

// "larder-POOL"; that of a backend's objects is api::managed_name().
std::string pool_name(const api::CachePool& pool);

}  // namespace larder::desired

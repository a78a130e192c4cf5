// Who larderd is in a pod. Pure; thread-safe.
#pragma once

#include <cstdint>

#include "operator/api/cache_pool.h"

namespace larder::desired {

struct LarderdUser {
  std::int64_t user, group;
};

// The pool's podSecurity says, else: in placement Sidecar api::kUser (the injector takes another one where a container of the pod is that);
// in placement Node a number of the pool's own for both, so that no engine of the node is larderd's user, which could open the index for
// writing, and an engine of another pool is not of its group.
LarderdUser larderd_user(const api::CachePool& pool);

}  // namespace larder::desired

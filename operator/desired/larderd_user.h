// User and group of larderd in a pod. Pure; thread-safe.
#pragma once

#include <cstdint>

#include "operator/api/cache_pool.h"

namespace larder::desired {

struct LarderdUser {
  std::int64_t user, group;
};

// runAsUser and runAsGroup of the pool's podSecurity win. Otherwise:
// - Placement Sidecar: api::kUser. The injector takes another uid if a container of the pod has it.
// - Placement Node: one number per pool for user and group. larderd's user could open the index for
//   writing, so no engine of the node may run as this user, and engines of other pools must not be
//   in the group.
LarderdUser larderd_user(const api::CachePool& pool);

// User and group of a plug-in beside larderd. Another user than larderd's: a fault of the plug-in
// opens no memory of larderd. The group is larderd's, which owns the socket. A runAsUser of the
// pool's podSecurity wins.
LarderdUser plugin_user(const api::CachePool& pool);

}  // namespace larder::desired

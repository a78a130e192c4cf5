// Parts that Larder's containers share. Pure; thread-safe.
#pragma once

#include <string_view>

#include "operator/api/cache_pool.h"
#include "operator/desired/larderd_user.h"

namespace larder::desired {

inline constexpr std::string_view kCpuRequest = "100m";  // the copies take up to a core

// A securityContext that passes Pod Security `restricted`, unless the pool's podSecurity says
// otherwise.
api::Object security_context(const api::CachePool& pool, LarderdUser who);

api::Object volume_mount(std::string_view volume, std::string_view path, bool read_only);

// Requests `cpu` and all `memory`, and limits the memory. A cpu limit on larderd suggests a quota
// that requires a cpu limit on every container.
api::Object own_resources(const api::CachePool& pool, std::string_view cpu, std::uint64_t memory);

}  // namespace larder::desired

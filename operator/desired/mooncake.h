// larder-mooncake, the plug-in of a backend of type Mooncake: the container beside larderd, and the
// NetworkPolicy around the pods with the container.
//
// Pure; thread-safe. REQUIRES: the backend has the type Mooncake.
#pragma once

#include <optional>
#include <string>

#include "operator/desired/larderd.h"
#include "operator/desired/port_guard.h"

namespace larder::desired {

// The region that larderd and the plug-in share, larderd's default for backend.plugin_region. The
// kernel charges each page to the container that touches the page first.
inline constexpr std::uint64_t kPluginRegion = 256ULL << 20;

// Empty without an image in `defaults`: the pods then run without the plug-in, and larderd's status
// tells that no plug-in is connected. Has no probe. The plug-in's supervisor restarts its parts. A
// probe that fails would keep the engine from starting, or would drop the contributed memory.
std::optional<api::Object> mooncake_container(const api::CachePool& pool,
                                              const api::CacheBackend& backend,
                                              const Defaults& defaults);

// The label of pods with the container.
api::Object mooncake_labels(const api::CacheBackend& backend);
// "larder-POOL-mooncake".
std::string mooncake_name(const api::CachePool& pool);
// Only members of the Mooncake pool reach the ports of the plug-in: pods with mooncake_labels(),
// and spec.mooncake.membersFrom. REQUIRES: not Isolation::kMixed.
api::Object mooncake_policy(const api::CachePool& pool, const api::CacheBackend& backend,
                            Isolation isolation);

}  // namespace larder::desired

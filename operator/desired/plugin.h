// The plug-in of a backend (api::kPlugins): the container beside larderd, and the NetworkPolicy
// around the ports of the container.
//
// Pure; thread-safe.
#pragma once

#include <optional>
#include <string>

#include "operator/desired/larderd.h"
#include "operator/desired/port_guard.h"

namespace larder::desired {

// The region that larderd and the plug-in share, larderd's default for backend.plugin_region. The
// kernel charges each page to the container that touches the page first.
inline constexpr std::uint64_t kPluginRegion = 256ULL << 20;

// Empty: the operator has no image for the backend's plug-in.
std::string plugin_image(const api::CacheBackend& backend, const Defaults& defaults);

// Empty if larderd itself speaks to the backend. Empty also without an image in `defaults`: the
// pods then run without the plug-in, and larderd's status tells that no plug-in is connected. Has
// no probe. The plug-in's supervisor restarts its parts. A probe that fails would keep the engine
// from starting, or would drop contributed memory.
std::optional<api::Object> plugin_container(const api::CachePool& pool,
                                            const std::optional<api::CacheBackend>& backend,
                                            const Defaults& defaults);

// The label of pods with the container; an empty object without a plug-in.
api::Object plugin_labels(const std::optional<api::CacheBackend>& backend);

// "larder-POOL-mooncake".
std::string plugin_policy_name(const api::CachePool& pool, const api::Plugin& plugin);
// Empty for a plug-in that does not listen. Only members reach the ports of the plug-in: pods with
// plugin_labels(), and spec.mooncake.membersFrom. REQUIRES: not Isolation::kMixed.
std::optional<api::Object> plugin_policy(const api::CachePool& pool,
                                         const std::optional<api::CacheBackend>& backend,
                                         Isolation isolation);

}  // namespace larder::desired

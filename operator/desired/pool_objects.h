// The objects of a pool. Placement Node: a ConfigMap and a DaemonSet. Placement Sidecar: none,
// since the injector adds larderd to the engines' pods. With peers, both have a Service and a
// NetworkPolicy, and with a backend of type Mooncake another NetworkPolicy.
//
// Pure; thread-safe. Each object is complete: kind, namespace, labels, owner.
#pragma once

#include <optional>
#include <vector>

#include "operator/desired/larderd.h"
#include "operator/desired/peer_objects.h"

namespace larder::desired {

std::vector<api::Object> pool_objects(const api::CachePool& pool,
                                      const std::optional<api::CacheBackend>& backend,
                                      const Defaults& defaults,
                                      Isolation isolation = Isolation::kNone);

// kRestartAnnotation of pods that free the memory of a node and end.
inline constexpr std::string_view kFreeing = "freeing";

// The objects of a deleted pool, in place of pool_objects(). On every node a pod replaces larderd,
// frees larderd's memory and ends with status 0. REQUIRES: placement Node.
std::vector<api::Object> freeing_objects(api::CachePool pool, const Defaults& defaults);

// One builder per kind. REQUIRES: placement Node.
api::Object config_map(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend);
api::Object daemon_set(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend,
                       const Defaults& defaults);
api::Object freeing_daemon_set(const api::CachePool& pool, const Defaults& defaults);

}  // namespace larder::desired

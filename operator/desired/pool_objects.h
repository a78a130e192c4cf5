// The objects of a pool: placement Node a ConfigMap and a DaemonSet; Sidecar none, since there larderd stands in the engines' pods.
//
// Pure; thread-safe. Each object is whole: kind, namespace, labels, owner.
#pragma once

#include <optional>
#include <vector>

#include "operator/desired/larderd.h"

namespace larder::desired {

std::vector<api::Object> pool_objects(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend,
                                      const Defaults& defaults);

// kRestartAnnotation of pods that free what larderd left on their node, and end.
inline constexpr std::string_view kFreeing = "freeing";

// Of a pool that is deleted, in place of those above: on every node larderd goes, and what comes after it frees its memory and ends, with
// status 0. REQUIRES: placement Node.
std::vector<api::Object> freeing_objects(api::CachePool pool, const Defaults& defaults);

// One a kind. REQUIRES: placement Node.
api::Object config_map(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend);
api::Object daemon_set(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend, const Defaults& defaults);
api::Object freeing_daemon_set(const api::CachePool& pool, const Defaults& defaults);

}  // namespace larder::desired

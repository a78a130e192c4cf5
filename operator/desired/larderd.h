// larderd as a pod's container: its configuration, container, volumes. Pure: spec in, objects out.
//
// One builder for both placements: the injector adds what it returns to an engine's pod, the DaemonSet is made of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/api/cache_backend.h"
#include "operator/api/cache_pool.h"

namespace larder::desired {

struct Defaults {               // what the operator was started with
  std::string image;            // of larderd and the payload
  bool native_sidecars = true;  // false: clusters before 1.29
};

// larderd's YAML (docs/configuration.md), the same for the same input. `backend` is the pool's, where it has one and it exists.
std::string larderd_config(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend);

// What a change of the pool or backend needs a restart of the pod for (memory, volumes, image, secrets' names), as a short hash.
std::string restart_hash(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend, const Defaults& defaults);

// larderd's own container, with mounts, probes, resources and a security context that passes `restricted`.
// As a native sidecar (restartPolicy Always, a startup probe) in placement Sidecar.
api::Object larderd_container(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend,
                              const Defaults& defaults);

// The init container that copies the shim to kPayloadVolume.
api::Object payload_container(const api::CachePool& pool, const Defaults& defaults);

// The volumes that the two need, and those mounts of them that the engine's container needs.
std::vector<api::Object> larderd_volumes(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend);
std::vector<api::Object> engine_mounts(const api::CachePool& pool);

}  // namespace larder::desired

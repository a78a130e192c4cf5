// larderd as a pod's container: its configuration, container, volumes. Pure: spec in, objects out.
//
// One builder for both placements: the injector adds what it returns to an engine's pod, the DaemonSet is made of it. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/cache_backend.h"
#include "operator/api/cache_pool.h"

namespace larder::desired {

struct Defaults {                       // what the operator was started with
  std::string image;                    // of larderd and the payload
  bool native_sidecars = true;          // false: clusters before 1.29
  std::string operator_namespace = {};  // whose pods may ask a managed backend how it is; empty: none
  // Secrets by which pods pull our images, of whatever namespace they are in: one that is not there costs nothing.
  std::vector<std::string> pull_secrets = {};
  std::string image_registry = {};  // in place of the host of images that the operator names itself; empty: theirs
};

// What of the engine's pod larderd must follow in placement Sidecar.
struct EnginePod {
  bool host_network = false;  // two such pods of a node would want the same port: no TCP port, probes by exec
};

// larderd's YAML (docs/reference/configuration.md), the same for the same input. `backend` is the pool's, where it has one and it exists.
std::string larderd_config(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend,
                           const EnginePod& engine = {});

// Whether a configuration that larderd_config() made has a backend in it.
bool has_backend(std::string_view config);

// What a change of the pool or backend needs a restart of larderd's pod for (memory, volumes, image, secrets' names; where that is the
// engine's, what is given to the engine), as a short hash.
std::string restart_hash(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend, const Defaults& defaults,
                         const EnginePod& engine = {});

// Of what an engine's pod is given when it is made and has for its life: the shim, volumes, groups, the connector's flags. A part of
// restart_hash in placement Sidecar; in placement Node all that the engine's pod has.
std::string engine_hash(const api::CachePool& pool, const Defaults& defaults);

// larderd's own container, with mounts, probes, resources and a security context that passes `restricted`.
// As a native sidecar (restartPolicy Always, a startup probe) in placement Sidecar.
api::Object larderd_container(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend,
                              const Defaults& defaults, const EnginePod& engine = {});

// Before it on a node, as root, which ends at once: gives larderd's user the folders that the node and the kubelet made as root's.
// REQUIRES: placement Node.
api::Object folders_container(const api::CachePool& pool, const Defaults& defaults);

// In its place on a node: what frees the memory that larderd left there, and ends. REQUIRES: placement Node.
api::Object freeing_container(const api::CachePool& pool, const Defaults& defaults);

// The init container that copies the shim to kPayloadVolume.
api::Object payload_container(const api::CachePool& pool, const Defaults& defaults);

// By which a pod of ours pulls its image, as in spec.imagePullSecrets: the operator's own, then `more` (null: none), each once.
api::Object pull_secrets(const api::Object& more, const Defaults& defaults);

// The volumes of larderd's pod. Placement Sidecar: also those of the payload and the engine, whose pod it is.
std::vector<api::Object> larderd_volumes(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend);

// Of an engine's pod in placement Node, where larderd is in another one: the pool's socket, and the payload.
std::vector<api::Object> engine_volumes(const api::CachePool& pool);

// What the engine's container mounts: the socket and the payload, both read-only. Arena and index come to it as file descriptors
// over the socket, so that larderd's memory volume is larderd's alone.
std::vector<api::Object> engine_mounts(const api::CachePool& pool);

// What the security context of the engine's pod must have besides its own, so that an engine of any uid may use the socket:
// supplementalGroups, to be added to those that are there; and fsGroup where larderd could not write to its disk or huge pages
// without one, to be set where there is none.
api::Object engine_pod_security(const api::CachePool& pool);

// Of all keys in the pool's backend: spec.backendRef.prefix, or NAMESPACE.POOL.
std::string backend_prefix(const api::CachePool& pool);

// Where engines attach, in every container: /run/larder/POOL.sock.
std::string socket_path(const api::CachePool& pool);

}  // namespace larder::desired

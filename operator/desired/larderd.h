// larderd in a pod: configuration, container, volumes. Pure: spec in, objects out. Thread-safe.
//
// Both placements use these functions: the injector adds the results to an engine's pod, and the
// DaemonSet consists of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/cache_backend.h"
#include "operator/api/cache_pool.h"

namespace larder::desired {

struct Defaults {                       // settings of the operator's command line and cluster
  std::string image;                    // image of larderd and the payload
  bool native_sidecars = true;          // false: clusters before 1.29
  std::string operator_namespace = {};  // its pods may check a managed backend; empty: none
  // The images of plug-ins. Without an image, pods run without the plug-in.
  std::map<api::BackendType, std::string> plugin_images = {};
  // Names of pull Secrets for pods of every namespace. The kubelet ignores a missing Secret.
  std::vector<std::string> pull_secrets = {};
  std::string image_registry = {};  // replaces the host of default images; empty: no replacement
};

// Properties of the engine's pod that larderd follows in placement Sidecar.
struct EnginePod {
  bool host_network = false;  // true: no TCP port, since two pods of a node would collide
};

// The YAML of larderd (docs/reference/configuration.md), the same for equal input. `backend`: the
// pool's backend if the backend exists.
std::string larderd_config(const api::CachePool& pool,
                           const std::optional<api::CacheBackend>& backend,
                           const EnginePod& engine = {});

// Whether a configuration made by larderd_config() has a backend.
bool has_backend(std::string_view config);

// Short hash over all that only a restart of larderd's pod can change: memory, volumes, image,
// names of Secrets. In placement Sidecar, engine_hash() is a part. A running larderd takes over all
// other keys (sidecar/config/reload.h); restart_hash_test.cc compares the two.
std::string restart_hash(const api::CachePool& pool,
                         const std::optional<api::CacheBackend>& backend, const Defaults& defaults,
                         const EnginePod& engine = {});

// Short hash over the parts of an engine's pod that are fixed at its creation: the shim, volumes,
// groups, flags of the connector. In placement Node, the engine's pod has no other hash.
std::string engine_hash(const api::CachePool& pool, const Defaults& defaults);

// The container of larderd, with mounts, probes, resources and a security context that passes
// `restricted`. In placement Sidecar a native sidecar: restartPolicy Always and a startup probe.
api::Object larderd_container(const api::CachePool& pool,
                              const std::optional<api::CacheBackend>& backend,
                              const Defaults& defaults, const EnginePod& engine = {});

// An init container of placement Node. Runs as root, ends at once, and gives larderd's user the
// folders that node and kubelet made as root. REQUIRES: placement Node.
api::Object folders_container(const api::CachePool& pool, const Defaults& defaults);

// Replaces larderd's container in the DaemonSet of a deleted pool: frees the memory that larderd
// left on the node, and ends. REQUIRES: placement Node.
api::Object freeing_container(const api::CachePool& pool, const Defaults& defaults);

// The init container that copies the shim to kPayloadVolume.
api::Object payload_container(const api::CachePool& pool, const Defaults& defaults);

// spec.imagePullSecrets of a pod: the Secrets of `defaults`, then `more` (null: none), without
// duplicates.
api::Object pull_secrets(const api::Object& more, const Defaults& defaults);

// The volumes of larderd's pod. In placement Sidecar, with the volumes of payload and engine.
std::vector<api::Object> larderd_volumes(const api::CachePool& pool,
                                         const std::optional<api::CacheBackend>& backend);

// The volumes of an engine's pod in placement Node: the folder of the pool's socket, and the
// payload.
std::vector<api::Object> engine_volumes(const api::CachePool& pool);

// The mounts of the engine's container: socket and payload, both read-only. The engine receives
// arena and index as file descriptors over the socket, so that only larderd mounts the memory
// volume.
std::vector<api::Object> engine_mounts(const api::CachePool& pool);

// Additions to the security context of an engine's pod. supplementalGroups has larderd's group, so
// that an engine of any uid may use the socket and no volume changes its owner. fsGroup is present
// only for a claim and for huge pages, which otherwise belong to root; set fsGroup only if the pod
// has none.
api::Object engine_pod_security(const api::CachePool& pool);

// Prefix of all keys in the pool's backend: spec.backendRef.prefix, or NAMESPACE.POOL.
std::string backend_prefix(const api::CachePool& pool);

// The socket at which engines attach, in every container: /run/larder/POOL.sock.
std::string socket_path(const api::CachePool& pool);

}  // namespace larder::desired

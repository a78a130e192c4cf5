// CacheBackend: a store that pools share: a Redis, Valkey, Mooncake or InfiniStore. The user runs
// the servers; a Redis or Valkey may be the operator's.
//
// charts/larder/files/crds/larder.dev_cachebackends.yaml is the source of truth. Plain values;
// thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/names.h"
#include "operator/api/object.h"
#include "operator/api/spec_reader.h"
#include "shim/base/status.h"

namespace larder::api {

enum class BackendType { kRedis, kMooncake, kInfiniStore };  // behind kRedis: as in kPlugins
enum class BackendMode { kStandalone, kSentinel, kCluster };

// A key of a Secret. A namespace is not part of the value: a backend reads Secrets of its own
// namespace only. Passwords never enter this room.
struct SecretKey {
  std::string name, key;
};

struct TlsSpec {
  bool enabled = false;
  std::string ca_secret;      // key ca.crt; empty: the authorities of the image
  std::string client_secret;  // keys tls.crt, tls.key: larderd's own certificate; empty: none
  std::string server_name;    // empty: the endpoint's host
};

struct ManagedSpec {              // spec.managed: a server that the operator runs as a StatefulSet
  std::string engine = "valkey";  // valkey, redis
  std::string image;
  std::string image_pull_policy;   // empty: Kubernetes' own rule
  std::uint64_t memory_bytes = 0;  // limit of the container
  std::string policy = "allkeys-lru";
  Object resources, node_selector, tolerations, affinity;
  std::string priority_class;  // empty: the cluster's default
};

// spec.mooncake: the plug-in larder-mooncake beside each larderd, a member of the Mooncake pool.
struct MooncakeSpec {
  bool rdma = false;                   // false: TCP
  std::vector<std::string> devices;    // RDMA only: mlx5_0; empty: Mooncake chooses
  std::string device_resource;         // RDMA only: the resource of a device plugin, rdma/hca
  std::uint64_t contribute_bytes = 0;  // memory of each plug-in for the Mooncake pool
  Object members_from;                 // a NetworkPolicy's `from`: other members; null: none
};

struct BackendSpec {
  BackendType type = BackendType::kRedis;
  MooncakeSpec mooncake;  // type Mooncake only
  BackendMode mode = BackendMode::kStandalone;
  std::vector<std::string> endpoints;  // HOST:PORT; with a plug-in one, e.g. Mooncake's master
  std::string master;                  // mode Sentinel only
  int database = 0;                    // 0 in mode Cluster
  std::string user;
  std::optional<SecretKey> password;
  std::string sentinel_user;
  std::optional<SecretKey> sentinel_password;
  TlsSpec tls;
  bool read_replicas = false;
  std::optional<ManagedSpec> managed;
};

struct CacheBackend {
  std::string ns, name, uid;
  std::int64_t generation = 0;
  BackendSpec spec;
};

// The plug-in of a type, or of a backend. Null: no backend, or larderd itself speaks to it.
constexpr const Plugin* plugin_of(BackendType type) {
  return type == BackendType::kRedis ? nullptr : &kPlugins[static_cast<std::size_t>(type) - 1];
}
inline const Plugin* plugin_of(const std::optional<CacheBackend>& backend) {
  return backend ? plugin_of(backend->spec.type) : nullptr;
}
// Null also for a plug-in that listens at no port.
inline const Plugin* listening_plugin_of(const std::optional<CacheBackend>& backend) {
  const Plugin* plugin = plugin_of(backend);
  return plugin && plugin->listens() ? plugin : nullptr;
}

// kInvalidArgument: the error names the wrong field. Never throws.
Result<CacheBackend> parse_backend(const Object& object);

// All fields of spec that parse_backend() reads. crd_test.cc compares the list with the CRD.
std::vector<SpecField> backend_fields();

// The backend.url of larderd, without a password: "rediss-cluster://user@h1:6379,h2:6379", or
// "mooncake://master:50051". For a managed backend, the URL of the backend's Service.
std::string url_of(const CacheBackend& backend);

// For a managed backend: the name of the objects, the host name of the Service inside the cluster,
// and the port of the server.
std::string managed_name(const CacheBackend& backend);
std::string managed_host(const CacheBackend& backend);
inline constexpr int kServerPort = 6379;

}  // namespace larder::api

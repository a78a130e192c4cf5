// CacheBackend: a Redis or Valkey that pools share: an existing one, or one that the operator runs.
//
// charts/larder/files/crds/larder.dev_cachebackends.yaml is the source of truth. Plain values; thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/object.h"
#include "operator/api/spec_reader.h"
#include "shim/base/status.h"

namespace larder::api {

enum class BackendMode { kStandalone, kSentinel, kCluster };

struct SecretKey {  // of the backend's own namespace, always
  std::string name, key;
};

struct TlsSpec {
  bool enabled = false;
  std::string ca_secret;      // key ca.crt; empty: the authorities of the image
  std::string client_secret;  // keys tls.crt, tls.key: larderd's own certificate; empty: none
  std::string server_name;    // empty: the endpoint's host
};

struct ManagedSpec {              // spec.managed: a StatefulSet that the operator runs
  std::string engine = "valkey";  // valkey, redis
  std::string image;
  std::string image_pull_policy;   // empty: Kubernetes' own rule
  std::uint64_t memory_bytes = 0;  // of the container
  std::string policy = "allkeys-lru";
  Object resources, node_selector, tolerations, affinity;
  std::string priority_class;  // empty: the cluster's default
};

struct BackendSpec {
  BackendMode mode = BackendMode::kStandalone;
  std::vector<std::string> endpoints;  // HOST:PORT
  std::string master;                  // mode Sentinel
  int database = 0;                    // not in mode Cluster
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

// kInvalidArgument names the field; never throws.
Result<CacheBackend> parse_backend(const Object& object);

// Every field of spec that parse_backend reads, for the test that holds it equal to the CRD.
std::vector<SpecField> backend_fields();

// larderd's backend.url: "rediss-cluster://user@h1:6379,h2:6379"; of a managed one that of its Service. No password in it.
std::string url_of(const CacheBackend& backend);

// Of a managed one: the name of its objects, the host name of its Service in the cluster, and where it listens.
std::string managed_name(const CacheBackend& backend);
std::string managed_host(const CacheBackend& backend);
inline constexpr int kServerPort = 6379;

}  // namespace larder::api

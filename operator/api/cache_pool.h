// CachePool: one configuration of sidecars and one trust domain. The values are the checked spec of
// a user with defaults filled in.
//
// charts/larder/files/crds/larder.dev_cachepools.yaml is the source of truth for fields, defaults
// and rules; crd_test.cc compares the two. Plain values; thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/injection_spec.h"
#include "operator/api/object.h"
#include "operator/api/resource_rules.h"
#include "operator/api/spec_reader.h"
#include "shim/base/status.h"

namespace larder::api {

enum class Placement { kSidecar, kNode };
enum class Hugepages { kNone, k2Mi, k1Gi };
enum class Transfer { kShim, kSidecar };  // kSidecar: larderd copies over CUDA IPC
enum class DiskVolume { kEmptyDir, kEphemeralClaim, kHostPath };

struct MemorySpec {
  std::uint64_t size_bytes = 0;
  std::string size;  // as written: "8Gi"
  Hugepages hugepages = Hugepages::kNone;
  std::string numa = "none";  // none, auto, or a node's number
};

struct DiskSpec {
  std::uint64_t size_bytes = 0;
  std::string size;
  DiskVolume volume = DiskVolume::kEmptyDir;
  std::string storage_class;   // for an ephemeral claim; empty: the cluster's default
  std::string host_path;       // placement Node only
  std::string write = "back";  // back, through
  std::string ttl = "0";
  int admit_after = 1;
};

struct BackendWriteSpec {
  std::string policy = "all";  // all, evicted, popular
  std::string rate = "0";      // bytes per second, "100Mi"; 0: no limit
  std::uint64_t rate_bytes = 0;
  std::string ttl = "0";
};

// spec.peers: larderd of the pool read chunks from each other's memory.
struct PeersSpec {
  bool tls = true;         // false: plain TCP
  std::string tls_secret;  // with ca.crt, tls.crt, tls.key; empty: the operator makes the Secret
  std::uint64_t serve_rate_bytes = 0;  // per second; 0: no limit
  int fanout = 16;                     // the most peers that a larderd asks for a prompt
};

struct EngineSpec {
  std::string container;  // the engine's container; empty: the injector finds the container
  bool flags = true;      // false: the user writes the connector's flag
};

struct NodeSpec {  // placement Node: copied into the DaemonSet; null: field not given
  Object node_selector, tolerations, affinity, update_strategy;
  std::string priority_class;  // empty: the cluster's default
};

struct PoolSpec {
  Placement placement = Placement::kSidecar;
  MemorySpec memory;
  std::optional<DiskSpec> disk;
  std::string backend;  // spec.backendRef.name; empty: none
  BackendWriteSpec backend_write;
  std::string backend_prefix;      // prefix of all keys in the backend; empty: NAMESPACE.POOL
  std::optional<PeersSpec> peers;  // empty: no peers, also with enabled: false
  int chunk_tokens = 0;            // 0: the connector's default
  std::string eviction = "lru";
  std::string image;              // empty: the operator's default
  std::string image_pull_policy;  // empty: Kubernetes' own rule
  Object pull_secrets;            // imagePullSecrets: [{name: x}]; null: field not given
  Object resources;               // of larderd, beside memory and hugepages; null: not given
  EngineSpec engine;
  Object pod_security;  // securityContext fields of larderd that a user overrides; null: not given
  Transfer transfer = Transfer::kShim;
  std::string runtime_class;  // transfer: sidecar only
  NodeSpec node;
  InjectionSpec injection;
};

struct CachePool {
  std::string ns, name, uid;
  std::int64_t generation = 0;
  PoolSpec spec;
};

inline bool on_node(const CachePool& pool) {
  return pool.spec.placement == Placement::kNode;
}

// kInvalidArgument: the error names the field as a user writes it and the text to write instead
// ("spec.memory.size: '8GB' ..."). The API server's schema refuses most such objects first. Never
// throws.
Result<CachePool> parse_pool(const Object& object);

// All fields of spec that parse_pool() reads. crd_test.cc compares the list with the CRD.
std::vector<SpecField> pool_fields();

// Memory of larderd beside the arena (index, program, buffers, catalog of the disk), in bytes.
std::uint64_t own_memory_bytes(const PoolSpec& spec);
// The least memory limit under which larderd's container runs, in whole MiB: own_memory_bytes() and
// the arena. An arena on huge pages does not count.
std::uint64_t least_memory_limit(const PoolSpec& spec);

// The first entry of spec.resources that would make a refused or killed pod; the path is relative
// to spec.resources.
std::optional<WrongResource> wrong_resources(const PoolSpec& spec);

}  // namespace larder::api

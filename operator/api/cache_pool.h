// CachePool: one configuration of sidecars, one trust domain. What a user wrote, checked, with the defaults filled in.
//
// charts/larder/files/crds/larder.dev_cachepools.yaml is the source of truth for fields, defaults and rules; a test
// compares the two. Plain values; thread-compatible.
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
enum class Transfer { kShim, kSidecar };  // kSidecar: larderd copies itself, over CUDA IPC
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
  std::string storage_class;   // of an ephemeral claim; empty: the cluster's default
  std::string host_path;       // placement Node alone
  std::string write = "back";  // back, through
  std::string ttl = "0";
  int admit_after = 1;
};

struct BackendWriteSpec {
  std::string policy = "all";  // all, evicted, popular
  std::string rate = "0";      // bytes a second, "100Mi"; 0: no limit
  std::uint64_t rate_bytes = 0;
  std::string ttl = "0";
};

struct EngineSpec {
  std::string container;  // which container of the pod is the engine; empty: found by its shape
  bool flags = true;      // false: the user writes the connector's flag himself
};

struct NodeSpec {  // placement Node: handed on to the DaemonSet as they are; null where not given
  Object node_selector, tolerations, affinity, update_strategy;
  std::string priority_class;  // empty: the cluster's default
};

struct PoolSpec {
  Placement placement = Placement::kSidecar;
  MemorySpec memory;
  std::optional<DiskSpec> disk;
  std::string backend;  // spec.backendRef.name; empty: none
  BackendWriteSpec backend_write;
  std::string backend_prefix;  // of all keys there; empty: NAMESPACE.POOL
  int chunk_tokens = 0;        // 0: the connector's default
  std::string eviction = "lru";
  std::string image;              // empty: the operator's own
  std::string image_pull_policy;  // empty: Kubernetes' own rule
  Object pull_secrets;            // imagePullSecrets: [{name: x}]; null where not given
  Object resources;               // of larderd, beside what memory and hugepages need; null where not given
  EngineSpec engine;
  Object pod_security;  // securityContext fields of larderd that a user overrides; null where not given
  Transfer transfer = Transfer::kShim;
  std::string runtime_class;  // transfer sidecar
  NodeSpec node;
  InjectionSpec injection;
};

struct CachePool {
  std::string ns, name, uid;
  std::int64_t generation = 0;
  PoolSpec spec;
};

// kInvalidArgument names the field ("spec.memory.size: '8GB' ..."), which the API server's schema refuses before; never throws.
Result<CachePool> parse_pool(const Object& object);

// Every field of spec that parse_pool reads, for the test that holds it equal to the CRD.
std::vector<SpecField> pool_fields();

// What larderd itself needs beside the arena (its index, its program, its buffers, what it knows of its disk), in bytes.
std::uint64_t own_memory_bytes(const PoolSpec& spec);
// The least limit of memory that larderd's container runs with: the above, and the arena unless that stands on huge pages; whole MiB.
std::uint64_t least_memory_limit(const PoolSpec& spec);

// Which of spec.resources would make a pod that is refused or killed, by its path below that.
std::optional<WrongResource> wrong_resources(const PoolSpec& spec);

}  // namespace larder::api

#include "operator/api/cache_pool.h"

#include <array>

namespace larder::api {
namespace {

using Names = std::string_view;
constexpr std::array<Names, 2> kPlacements{"Sidecar", "Node"};
constexpr std::array<Names, 3> kHugepages{"none", "2Mi", "1Gi"};
constexpr std::array<Names, 2> kTransfers{"shim", "sidecar"};
constexpr std::array<Names, 3> kDiskVolumes{"emptyDir", "ephemeral", "hostPath"};
constexpr std::array<Names, 2> kDiskWrites{"back", "through"};
constexpr std::array<Names, 3> kWritePolicies{"all", "evicted", "popular"};
constexpr std::array<Names, 1> kEvictions{"lru"};

constexpr std::uint64_t kGi = 1ULL << 30, kTi = 1ULL << 40;
// The schema of the CRD has the same bounds. 16 TiB is the bound of larderd: an index entry counts
// pages of 4 KiB in 32 bits.
constexpr std::uint64_t kLeastArena = 16 * kMi, kMostArena = 16 * kTi;
constexpr std::uint64_t kLeastDisk = kGi, kMostDisk = 64 * kTi;
constexpr std::uint64_t kLeastRate = kMi, kMostRate = kTi;
constexpr int kMostFanout = 16;  // of larderd
constexpr int kLeastChunk = 16, kMostChunk = 16384, kMostSights = 15;

// Memory beside the arena. kOwnMemory: program, buffers of sockets and tiers. kArenaShare: two
// indexes during a restart, and the records of slots. kDiskShare: the catalog of the disk.
constexpr std::uint64_t kOwnMemory = 256 * kMi, kArenaShare = 64, kDiskShare = 1024;

MemorySpec read_memory(SpecReader& reader) {
  MemorySpec memory;
  const SpecReader::Size size = reader.size("spec.memory.size", kLeastArena, kMostArena);
  memory.size = size.text;
  memory.size_bytes = size.bytes;
  memory.hugepages =
      static_cast<Hugepages>(reader.choice("spec.memory.hugepages", kHugepages, "none"));
  // larderd takes the same words (set_numa in sidecar/config/fields.cc): a pod with another word
  // would not start.
  memory.numa = reader.text("spec.memory.numa", "none");
  const bool number = !memory.numa.empty() && memory.numa.size() <= 4 &&
                      memory.numa.find_first_not_of("0123456789") == std::string::npos;
  if (memory.numa != "none" && memory.numa != "auto" && !number)
    reader.refuse("spec.memory.numa",
                  "'" + memory.numa + "' is not one of: none, auto, the number of a node");
  // larderd maps whole huge pages. The kernel would refuse the mapping of a part of a page, after
  // the pod was scheduled.
  const std::uint64_t page = memory.hugepages == Hugepages::k2Mi   ? 2 * kMi
                             : memory.hugepages == Hugepages::k1Gi ? kGi
                                                                   : 1;
  if (memory.size_bytes % page != 0)
    reader.refuse("spec.memory.size", "'" + memory.size + "' is no multiple of memory.hugepages");
  return memory;
}

DiskSpec read_disk(SpecReader& reader) {
  DiskSpec disk;
  const SpecReader::Size size = reader.size("spec.disk.size", kLeastDisk, kMostDisk);
  disk.size = size.text;
  disk.size_bytes = size.bytes;
  disk.volume =
      static_cast<DiskVolume>(reader.choice("spec.disk.volume", kDiskVolumes, "emptyDir"));
  disk.storage_class = reader.text("spec.disk.storageClassName");
  disk.host_path = reader.text("spec.disk.hostPath");
  disk.write = kDiskWrites[reader.choice("spec.disk.write", kDiskWrites, "back")];
  disk.ttl = reader.duration("spec.disk.ttl");
  disk.admit_after = static_cast<int>(reader.number("spec.disk.admitAfter", 1, kMostSights, 1));
  // The DaemonSet of placement Node makes a folder for each pool below this path
  // (desired/volumes.cc).
  if (disk.volume == DiskVolume::kHostPath && !disk.host_path.starts_with('/'))
    reader.refuse("spec.disk.hostPath",
                  "must be an absolute path of the node where disk.volume is hostPath");
  return disk;
}

BackendWriteSpec read_backend_write(SpecReader& reader) {
  BackendWriteSpec write;
  write.policy = kWritePolicies[reader.choice("spec.backendWrite.policy", kWritePolicies, "all")];
  const SpecReader::Size rate = reader.size("spec.backendWrite.rate", kLeastRate, kMostRate, "0");
  write.rate = rate.text;
  write.rate_bytes = rate.bytes;
  write.ttl = reader.duration("spec.backendWrite.ttl");
  return write;
}

// Empty for a pool with enabled: false. The fields are checked nevertheless, so that a wrong field
// shows before the user turns peers on.
std::optional<PeersSpec> read_peers(SpecReader& reader) {
  if (!reader.has("spec.peers")) return std::nullopt;
  PeersSpec peers;
  const bool enabled = reader.truth("spec.peers.enabled", true);
  peers.tls = reader.truth("spec.peers.tls.enabled", true);
  peers.tls_secret = reader.text("spec.peers.tls.secretName");
  if (!peers.tls && !peers.tls_secret.empty())
    reader.refuse("spec.peers.tls.secretName",
                  "is set and tls.enabled is false: remove secretName, or write enabled: true");
  const SpecReader::Size rate = reader.size("spec.peers.serveRate", kLeastRate, kMostRate, "0");
  peers.serve_rate_bytes = rate.bytes;
  peers.fanout = static_cast<int>(reader.number("spec.peers.fanout", 1, kMostFanout, kMostFanout));
  return enabled ? std::optional(peers) : std::nullopt;
}

// Kubernetes checks these values: they go into the DaemonSet unchanged, and the operator does not
// read them.
NodeSpec read_node(SpecReader& reader) {
  return {reader.map("spec.node.nodeSelector"), reader.list("spec.node.tolerations"),
          reader.map("spec.node.affinity"), reader.map("spec.node.updateStrategy"),
          reader.text("spec.node.priorityClassName")};
}

std::string read_pull_policy(SpecReader& reader) {
  if (reader.has("spec.imagePullPolicy"))
    return std::string(kPullPolicies[reader.choice("spec.imagePullPolicy", kPullPolicies, "")]);
  return "";
}

// Rules over several fields. The API server checks the same rules by CEL. An object that was stored
// under an older schema reaches this check without them, and would make a pod that cannot run.
void check(const PoolSpec& spec, SpecReader& reader) {
  if (spec.placement == Placement::kSidecar && spec.disk &&
      spec.disk->volume == DiskVolume::kHostPath)
    reader.refuse("spec.disk.volume", "hostPath is for placement Node: use emptyDir or ephemeral");
  if (spec.placement == Placement::kNode && spec.disk &&
      spec.disk->volume == DiskVolume::kEphemeralClaim)
    reader.refuse("spec.disk.volume",
                  "ephemeral is for placement Sidecar: use hostPath or emptyDir");
  if (const std::optional<WrongResource> wrong = wrong_resources(spec))
    reader.refuse("spec.resources." + wrong->path, wrong->why);
}

PoolSpec read_pool(SpecReader& reader) {
  PoolSpec spec;
  spec.placement = static_cast<Placement>(reader.choice("spec.placement", kPlacements, "Sidecar"));
  spec.memory = read_memory(reader);
  if (reader.has("spec.disk")) spec.disk = read_disk(reader);
  // backendRef without a name is an error, since a pool would otherwise run without the backend
  // that its author wanted.
  if (reader.has("spec.backendRef")) {
    spec.backend = reader.needed_text("spec.backendRef.name");
    spec.backend_prefix = reader.text("spec.backendRef.prefix");
  }
  spec.backend_write = read_backend_write(reader);
  spec.peers = read_peers(reader);
  spec.chunk_tokens =
      static_cast<int>(reader.number("spec.chunkTokens", kLeastChunk, kMostChunk, 0));
  spec.eviction = kEvictions[reader.choice("spec.eviction", kEvictions, "lru")];
  spec.image = reader.text("spec.image");
  // An image or policy that the pool leaves empty comes from the chart's values
  // (desired::Defaults).
  spec.image_pull_policy = read_pull_policy(reader);
  spec.pull_secrets = reader.list("spec.imagePullSecrets");
  spec.resources = reader.map("spec.resources");
  spec.engine.container = reader.text("spec.engine.container");
  spec.engine.flags = reader.truth("spec.engine.flags", true);
  spec.pod_security = reader.map("spec.podSecurity");
  spec.transfer = static_cast<Transfer>(reader.choice("spec.transfer", kTransfers, "shim"));
  spec.runtime_class = reader.text("spec.runtimeClassName");
  spec.node = read_node(reader);
  spec.injection = read_injection(reader);
  check(spec, reader);
  return spec;
}

}  // namespace

std::uint64_t own_memory_bytes(const PoolSpec& spec) {
  return kOwnMemory + spec.memory.size_bytes / kArenaShare +
         (spec.disk ? spec.disk->size_bytes / kDiskShare : 0);
}

// The arena counts for the limit of the container only in normal pages. The cgroup charges huge
// pages to hugetlb, not to memory.
std::uint64_t least_memory_limit(const PoolSpec& spec) {
  const std::uint64_t bytes =
      own_memory_bytes(spec) +
      (spec.memory.hugepages == Hugepages::kNone ? spec.memory.size_bytes : 0);
  // Rounded up to whole Mi, since messages give the number in Mi: a rounded-down number would be
  // refused in its turn.
  return (bytes + kMi - 1) / kMi * kMi;
}

std::optional<WrongResource> wrong_resources(const PoolSpec& spec) {
  return wrong_resource(spec.resources, {least_memory_limit(spec), "memory.size", true});
}

Result<CachePool> parse_pool(const Object& object) {
  SpecReader reader(object);
  CachePool pool;
  pool.ns = namespace_of(object);
  pool.name = name_of(object);
  pool.uid = text_at(object, "metadata.uid");
  pool.generation = number_at(object, "metadata.generation");
  pool.spec = read_pool(reader);
  if (!reader.status().ok()) return reader.status();
  return pool;
}

// With `describing`, read_pool() visits every field of an empty object and refuses no field. The
// list has every field that the parser reads.
std::vector<SpecField> pool_fields() {
  const Object none;
  SpecReader reader(none, true);
  read_pool(reader);
  return reader.fields();
}

}  // namespace larder::api

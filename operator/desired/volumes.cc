#include "operator/api/names.h"
#include "operator/desired/larderd.h"
#include "operator/desired/larderd_user.h"
#include "operator/desired/paths.h"
#include "operator/desired/peer_objects.h"
#include "operator/desired/quantity.h"

namespace larder::desired {
namespace {

using api::CacheBackend;
using api::CachePool;
using api::Object;

constexpr int kReadable = 0444;  // root owns the files, and only larderd's container mounts them

Object named(std::string_view name, std::string_view source, Object what) {
  return Object{{"name", name}, {std::string(source), std::move(what)}};
}

// A folder of the node for the pods of one pool: one arena is one trust domain.
// Pod Security `baseline` refuses hostPath, so placement Node needs a privileged namespace.
// The type DirectoryOrCreate lets the kubelet create the folder as root; larder-folders gives it to
// larderd's user.
Object node_folder(std::string_view name, const std::string& parent, const CachePool& pool) {
  return named(name, "hostPath",
               {{"path", parent + "/" + pool.ns + "/" + pool.name}, {"type", "DirectoryOrCreate"}});
}

Object run_volume(const CachePool& pool) {
  if (on_node(pool)) return node_folder(api::kRunVolume, std::string(kNodeRun), pool);
  return named(api::kRunVolume, "emptyDir",
               {{"medium", "Memory"}, {"sizeLimit", quantity(kRunBytes)}});
}

// The kernel charges a page to the first container that touches the page. larderd touches all
// pages, and its limit (container.cc) has room for the whole volume.
Object memory_volume(const CachePool& pool) {
  if (on_node(pool)) return node_folder(api::kMemoryVolume, std::string(kNodeMemory), pool);
  return named(api::kMemoryVolume, "emptyDir",
               {{"medium", "Memory"}, {"sizeLimit", quantity(memory_volume_bytes(pool.spec))}});
}

Object hugepages_volume(const CachePool& pool) {
  const bool large = pool.spec.memory.hugepages == api::Hugepages::k1Gi;
  // A node mounts 2 MiB pages at /dev/hugepages and has no mount for 1 GiB pages. Memory of 1 GiB
  // pages ends with the pod.
  if (on_node(pool) && !large)
    return node_folder(api::kHugepagesVolume, std::string(kNodeHugepages), pool);
  return named(api::kHugepagesVolume, "emptyDir",
               {{"medium", large ? "HugePages-1Gi" : "HugePages-2Mi"}});
}

// A ConfigMap needs no restart: the kubelet updates the file, and larderd watches it
// (--watch-config). In an engine's pod the annotation plays that part.
Object config_volume(const CachePool& pool) {
  if (on_node(pool))
    return named(api::kConfigVolume, "configMap",
                 {{"name", "larder-" + pool.name}, {"defaultMode", kReadable}});
  const std::string field = "metadata.annotations['" + std::string(api::kConfigAnnotation) + "']";
  Object item{{"path", kConfigFile}, {"fieldRef", {{"apiVersion", "v1"}, {"fieldPath", field}}}};
  return named(api::kConfigVolume, "downwardAPI",
               {{"defaultMode", kReadable}, {"items", Object::array({std::move(item)})}});
}

// An ephemeral claim ends with its pod (a generic ephemeral volume).
Object claim_template(const api::DiskSpec& disk) {
  Object spec{{"accessModes", Object::array({"ReadWriteOnce"})},
              {"resources", {{"requests", {{"storage", quantity(disk_volume_bytes(disk))}}}}}};
  if (!disk.storage_class.empty()) spec["storageClassName"] = disk.storage_class;
  // No backup of a cache: a restored pod makes a new claim.
  const Object labels{{"velero.io/exclude-from-backup", "true"}};
  return Object{
      {"volumeClaimTemplate", {{"metadata", {{"labels", labels}}}, {"spec", std::move(spec)}}}};
}

Object disk_volume(const CachePool& pool, const api::DiskSpec& disk) {
  switch (disk.volume) {
    case api::DiskVolume::kHostPath: return node_folder(api::kDiskVolume, disk.host_path, pool);
    case api::DiskVolume::kEphemeralClaim:
      return named(api::kDiskVolume, "ephemeral", claim_template(disk));
    case api::DiskVolume::kEmptyDir: break;
  }
  return named(api::kDiskVolume, "emptyDir", {{"sizeLimit", quantity(disk_volume_bytes(disk))}});
}

// Optional, so that a missing Secret costs the backend and the pod still starts.
Object secret_files(const std::string& secret,
                    std::initializer_list<std::pair<std::string_view, std::string_view>> files) {
  Object items = Object::array();
  for (const auto& [key, path] : files) items.push_back(Object{{"key", key}, {"path", path}});
  return Object{{"secret", {{"name", secret}, {"items", std::move(items)}, {"optional", true}}}};
}

// A projected volume joins several Secrets in one folder.
void add_secrets(std::string_view name, Object sources, std::vector<Object>& volumes) {
  if (sources.empty()) return;
  volumes.push_back(
      named(name, "projected", {{"defaultMode", kReadable}, {"sources", std::move(sources)}}));
}

void add_backend_volumes(const CacheBackend& backend, std::vector<Object>& volumes) {
  const api::BackendSpec& spec = backend.spec;
  // Passwords and TLS files have volumes of their own: a pool without TLS mounts no folder for it.
  Object auth = Object::array(), tls = Object::array();
  if (spec.password)
    auth.push_back(secret_files(spec.password->name, {{spec.password->key, kPasswordFile}}));
  if (spec.sentinel_password && spec.mode == api::BackendMode::kSentinel)
    auth.push_back(secret_files(spec.sentinel_password->name,
                                {{spec.sentinel_password->key, kSentinelPasswordFile}}));
  if (spec.tls.enabled && !spec.tls.ca_secret.empty())
    tls.push_back(secret_files(spec.tls.ca_secret, {{kCaFile, kCaFile}}));
  if (spec.tls.enabled && !spec.tls.client_secret.empty())
    tls.push_back(
        secret_files(spec.tls.client_secret, {{kCertFile, kCertFile}, {kKeyFile, kKeyFile}}));
  add_secrets(api::kAuthVolume, std::move(auth), volumes);
  add_secrets(api::kTlsVolume, std::move(tls), volumes);
}

// Without ca.key: no pod has the key of the authority.
void add_peers_volume(const CachePool& pool, std::vector<Object>& volumes) {
  if (!pool.spec.peers || !pool.spec.peers->tls) return;
  add_secrets(
      api::kPeersVolume,
      Object::array({secret_files(
          peers_secret(pool), {{kCaFile, kCaFile}, {kCertFile, kCertFile}, {kKeyFile, kKeyFile}})}),
      volumes);
}

Object payload_volume() {
  return named(api::kPayloadVolume, "emptyDir", {{"sizeLimit", quantity(kPayloadBytes)}});
}

Object read_only(std::string_view volume, std::string_view path) {
  return Object{{"name", volume}, {"mountPath", path}, {"readOnly", true}};
}

}  // namespace

std::vector<Object> larderd_volumes(const CachePool& pool,
                                    const std::optional<CacheBackend>& backend) {
  std::vector<Object> volumes{run_volume(pool), memory_volume(pool), config_volume(pool)};
  if (pool.spec.memory.hugepages != api::Hugepages::kNone)
    volumes.push_back(hugepages_volume(pool));
  if (pool.spec.disk) volumes.push_back(disk_volume(pool, *pool.spec.disk));
  if (backend) add_backend_volumes(*backend, volumes);
  add_peers_volume(pool, volumes);
  if (!on_node(pool)) volumes.push_back(payload_volume());
  return volumes;
}

std::vector<Object> engine_volumes(const CachePool& pool) {
  return {run_volume(pool), payload_volume()};
}

std::vector<Object> engine_mounts(const CachePool&) {
  return {read_only(api::kRunVolume, kRunPath), read_only(api::kPayloadVolume, kPayloadPath)};
}

// The engine joins larderd's group, since the socket has the mode 0660 (larderd_config.cc).
Object engine_pod_security(const CachePool& pool) {
  const std::int64_t group = larderd_user(pool).group;
  Object security{{"supplementalGroups", Object::array({group})}};
  if (on_node(pool)) return security;
  const bool claim = pool.spec.disk && pool.spec.disk->volume == api::DiskVolume::kEphemeralClaim;
  // The kubelet makes the emptyDir of huge pages as root, with mode 0755.
  const bool hugepages = pool.spec.memory.hugepages != api::Hugepages::kNone;
  // Without fsGroup, a claim belongs to root and larderd could not write. OnRootMismatch: a walk
  // over a large disk at each start would take minutes.
  if (claim || hugepages)
    security.update({{"fsGroup", group}, {"fsGroupChangePolicy", "OnRootMismatch"}});
  return security;
}

}  // namespace larder::desired

#include <algorithm>
#include <string>
#include <vector>

#include "operator/api/names.h"
#include "operator/desired/container_parts.h"
#include "operator/desired/image_name.h"
#include "operator/desired/larderd.h"
#include "operator/desired/larderd_user.h"
#include "operator/desired/paths.h"
#include "operator/desired/plugin.h"
#include "operator/desired/quantity.h"
#include "operator/desired/set_if.h"

namespace larder::desired {
namespace {

using api::CacheBackend;
using api::CachePool;
using api::Object;

constexpr std::uint64_t kSmallMemory = 64ULL << 20;
// A start takes 0.1 s, and longer with the footers of a large disk.
constexpr int kStartTries = 120, kStartEverySeconds = 1;
// Each probe runs a program for a few milliseconds.
constexpr int kProbeEverySeconds = 10, kProbeTimeoutSeconds = 5, kProbeTries = 6;
constexpr int kSupervisorEverySeconds = 30, kSupervisorTries = 4;  // a supervisor hardly ever hangs

// The process that answers probes. In a node's pod, larderd itself. In an engine's pod, the
// supervisor (sidecar/supervisor), which outlives larderd: a container that is down or not ready
// would take the engine's pod out of its Service. The supervisor answers the startup probe with
// success after 20 s at the latest.
// Invariant: no failure of larderd stops an engine or takes an engine's pod out of its Service.
std::string probed_socket(const CachePool& pool) {
  return std::string(kRunPath) + "/" + pool.name + (on_node(pool) ? ".admin" : ".supervisor");
}

// A probe runs larderctl at a Unix socket. A service mesh redirects the ports of a pod to its
// proxy, which starts after native sidecars or requires a certificate.
Object probe(const CachePool& pool, std::string_view verb, int period_seconds, int tries) {
  return Object{
      {"exec",
       {{"command", Object::array({"/usr/bin/larderctl", "--socket", probed_socket(pool), verb})}}},
      {"periodSeconds", period_seconds},
      {"timeoutSeconds", kProbeTimeoutSeconds},
      {"failureThreshold", tries}};
}

// An engine's pod has no readiness probe. A started container counts as ready, and a late answer of
// a busy node would take the engine out of its Service.
void add_probes(const CachePool& pool, Object& container) {
  const bool node = on_node(pool);
  container["startupProbe"] =
      probe(pool, node ? "ready" : "started", kStartEverySeconds, kStartTries);
  container["livenessProbe"] =
      node ? probe(pool, "alive", kProbeEverySeconds, kProbeTries)
           : probe(pool, "alive", kSupervisorEverySeconds, kSupervisorTries);
  if (node) container["readinessProbe"] = probe(pool, "ready", kProbeEverySeconds, kProbeTries);
}

// The supervisor answers probes at a socket, and the operator at a port unless hostNetwork is set.
Object command_of(const CachePool& pool, const EnginePod& engine) {
  const std::string config = std::string(kConfigPath) + "/" + std::string(kConfigFile);
  Object command = Object::array({"/usr/bin/larderd", "--config", config, "--watch-config"});
  if (on_node(pool)) return command;
  std::vector<std::string> addresses;
  if (!engine.host_network) addresses.push_back(":" + std::to_string(api::kSupervisorPort));
  addresses.push_back(probed_socket(pool));  // last: an older larderd uses only the last address
  for (const std::string& address : addresses) {
    command.push_back("--supervise");
    command.push_back(address);
  }
  return command;
}

Object port(std::string_view name, int number) {
  return Object{{"name", name}, {"containerPort", number}, {"protocol", "TCP"}};
}

// Not for hostNetwork, where two pods of a node would collide.
Object ports_of(const CachePool& pool) {
  Object ports = Object::array({port("larder-metrics", api::kMetricsPort)});
  if (!on_node(pool)) ports.push_back(port("larder-probe", api::kSupervisorPort));
  if (pool.spec.peers) ports.push_back(port("larder-peers", api::kPeersPort));
  return ports;
}

bool is_below(const Object& limit, std::uint64_t bytes) {
  const Result<std::uint64_t> given =
      api::quantity_bytes(limit.is_string() ? limit.get<std::string>() : limit.dump());
  return given.ok() && *given < bytes;
}

// The user's resources, and the memory and huge pages of the pool. The request for memory equals
// the limit, since larderd touches the whole arena.
// Without a limit in the spec, larderd gets the least limit with which its arena fits.
// The region that larderd shares with a plug-in comes on top. A CachePool is checked without its
// backend, so a limit in the spec may be too small: the limit then grows.
Object resources_of(const CachePool& pool, const std::optional<CacheBackend>& backend) {
  const api::PoolSpec& spec = pool.spec;
  Object resources = spec.resources.is_object() ? spec.resources : Object::object();
  Object& limits = resources["limits"];
  Object& requests = resources["requests"];
  if (!limits.is_object()) limits = Object::object();
  if (!requests.is_object()) requests = Object::object();
  // api::wrong_resources() has refused a smaller limit before.
  const std::uint64_t least =
      api::least_memory_limit(spec) + (api::plugin_of(backend) ? kPluginRegion : 0);
  if (!limits.contains("memory") || is_below(limits["memory"], least))
    limits["memory"] = quantity(least);
  if (!requests.contains("memory")) requests["memory"] = limits["memory"];
  if (!requests.contains("cpu")) requests["cpu"] = limits.value("cpu", Object(kCpuRequest));
  if (spec.memory.hugepages != api::Hugepages::kNone) {
    const std::string name =
        spec.memory.hugepages == api::Hugepages::k2Mi ? "hugepages-2Mi" : "hugepages-1Gi";
    limits[name] = requests[name] = quantity(spec.memory.size_bytes);
  }
  // A disk on an emptyDir is ephemeral storage of the node. With the request, the scheduler finds a
  // node with enough room.
  const bool local_disk = spec.disk && spec.disk->volume == api::DiskVolume::kEmptyDir;
  if (local_disk && !requests.contains("ephemeral-storage") &&
      !limits.contains("ephemeral-storage"))
    requests["ephemeral-storage"] = quantity(disk_volume_bytes(*spec.disk));
  return resources;
}

// Folders that larderd writes.
Object folders_of(const CachePool& pool) {
  Object mounts = Object::array({volume_mount(api::kRunVolume, kRunPath, false),
                                 volume_mount(api::kMemoryVolume, kMemoryPath, false)});
  if (pool.spec.memory.hugepages != api::Hugepages::kNone)
    mounts.push_back(volume_mount(api::kHugepagesVolume, kHugepagesPath, false));
  if (pool.spec.disk) mounts.push_back(volume_mount(api::kDiskVolume, kDiskPath, false));
  return mounts;
}

Object mounts_of(const CachePool& pool, const std::optional<CacheBackend>& backend) {
  Object mounts = folders_of(pool);
  mounts.push_back(volume_mount(api::kConfigVolume, kConfigPath, true));
  const std::vector<Object> volumes = larderd_volumes(pool, backend);
  const auto has = [&volumes](std::string_view name) {
    return std::ranges::any_of(volumes,
                               [name](const Object& volume) { return volume["name"] == name; });
  };
  if (has(api::kAuthVolume)) mounts.push_back(volume_mount(api::kAuthVolume, kAuthPath, true));
  if (has(api::kPeersVolume)) mounts.push_back(volume_mount(api::kPeersVolume, kPeersPath, true));
  if (has(api::kTlsVolume)) mounts.push_back(volume_mount(api::kTlsVolume, kTlsPath, true));
  return mounts;
}

Object environment_of(const CachePool& pool) {
  Object environment = Object::array();
  if (pool.spec.transfer != api::Transfer::kSidecar) return environment;
  // NVIDIA's runtime shows every GPU; the engine keeps its GPUs.
  environment.push_back(Object{{"name", "NVIDIA_VISIBLE_DEVICES"}, {"value", "all"}});
  environment.push_back(
      Object{{"name", "NVIDIA_DRIVER_CAPABILITIES"}, {"value", "compute,utility"}});
  return environment;
}

// For short init containers.
Object small_resources(const CachePool& pool) {
  return own_resources(pool, "10m", kSmallMemory);
}

// A request of the user raises a smaller default limit; a limit of the user lowers a larger default
// request.
void keep_requests_within_limits(const Object& wanted, Object& resources) {
  for (const auto& [name, limit] : resources["limits"].items()) {
    Object& request = resources["requests"][name];
    const auto milli = [](const Object& value) {
      return api::quantity_milli(value.is_string() ? value.get<std::string>() : value.dump());
    };
    const Result<std::uint64_t> most = milli(limit),
                                asked = request.is_null() ? milli("0") : milli(request);
    const bool chosen = !api::child(api::child(wanted, "limits"), name).is_null();
    if (most.ok() && asked.ok() && *asked > *most)
      (chosen ? request : resources["limits"][name]) = chosen ? limit : request;
    if (request.is_null()) request = limit;
  }
}

Object payload_resources(const CachePool& pool) {
  Object resources = small_resources(pool);
  const Object& wanted = pool.spec.injection.payload_resources;
  for (const char* section : {"limits", "requests"})
    if (const Object& amounts = api::child(wanted, section); amounts.is_object())
      resources[section].update(amounts);
  if (!wanted.is_null()) keep_requests_within_limits(wanted, resources);
  return resources;
}

std::string image_of(const CachePool& pool, const Defaults& defaults) {
  if (pool.spec.image.empty()) return defaults.image;
  return in_registry(pool.spec.image, defaults.image_registry, Named::kByUser);
}

}  // namespace

// Passes Pod Security `restricted`.
// The pool's podSecurity comes last: its user decides about each field. A real API server admits
// each pod in a namespace with `restricted` (tests/component/kube).
Object security_context(const CachePool& pool, LarderdUser who) {
  Object security{{"allowPrivilegeEscalation", false},
                  {"capabilities", {{"drop", Object::array({"ALL"})}}},
                  {"readOnlyRootFilesystem", true},
                  {"runAsNonRoot", who.user != 0},
                  {"runAsUser", who.user},
                  {"runAsGroup", who.group},
                  {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  if (pool.spec.pod_security.is_object()) security.update(pool.spec.pod_security);
  return security;
}

Object volume_mount(std::string_view volume, std::string_view path, bool read_only) {
  Object mount{{"name", volume}, {"mountPath", path}};
  if (read_only) mount["readOnly"] = true;
  return mount;
}

Object own_resources(const CachePool& pool, std::string_view cpu, std::uint64_t bytes) {
  const std::string memory = quantity(bytes);
  Object resources{{"requests", {{"cpu", cpu}, {"memory", memory}}},
                   {"limits", {{"memory", memory}}}};
  if (!api::at(pool.spec.resources, "limits.cpu").is_null()) resources["limits"]["cpu"] = "1";
  return resources;
}

Object larderd_container(const CachePool& pool, const std::optional<CacheBackend>& backend,
                         const Defaults& defaults, const EnginePod& engine) {
  Object container{{"name", api::kSidecarContainer},
                   {"image", image_of(pool, defaults)},
                   {"command", command_of(pool, engine)},
                   {"resources", resources_of(pool, backend)},
                   {"securityContext", security_context(pool, larderd_user(pool))},
                   // FallbackToLogsOnError: a container that fails has the end of its log as its
                   // message, which the operator quotes (reconcile/pod_view.cc).
                   {"terminationMessagePolicy", "FallbackToLogsOnError"},
                   {"volumeMounts", mounts_of(pool, backend)}};
  set_if(container, "imagePullPolicy", pool.spec.image_pull_policy);
  if (Object environment = environment_of(pool); !environment.empty())
    container["env"] = std::move(environment);
  if (!engine.host_network) container["ports"] = ports_of(pool);
  add_probes(pool, container);
  // A native sidecar (restartPolicy Always, on by default since Kubernetes 1.29) starts before the
  // engine and ends after it.
  if (!on_node(pool) && defaults.native_sidecars) container["restartPolicy"] = "Always";
  return container;
}

// larderd itself has no capability (drop: ALL), so an init container gives the folders away.
Object folders_container(const CachePool& pool, const Defaults& defaults) {
  const LarderdUser who = larderd_user(pool);
  const Object folders = folders_of(pool);
  Object command = Object::array({"/usr/bin/larderctl", "init-volumes",
                                  std::to_string(who.user) + ":" + std::to_string(who.group)});
  for (const Object& folder : folders) command.push_back(folder["mountPath"]);
  // CHOWN gives the folders to larderd's user. DAC_READ_SEARCH reads folders of an earlier user of
  // the pool's podSecurity.
  Object security = security_context(pool, who);
  security.update(
      {{"runAsUser", 0},
       {"runAsNonRoot", false},
       {"capabilities",
        {{"drop", Object::array({"ALL"})}, {"add", Object::array({"CHOWN", "DAC_READ_SEARCH"})}}}});
  Object container{{"name", api::kFoldersContainer},
                   {"image", image_of(pool, defaults)},
                   {"command", std::move(command)},
                   {"resources", small_resources(pool)},
                   {"securityContext", std::move(security)},
                   {"terminationMessagePolicy", "FallbackToLogsOnError"},
                   {"volumeMounts", folders}};
  set_if(container, "imagePullPolicy", pool.spec.image_pull_policy);
  return container;
}

// Has larderd's resources and mounts, so that it fits on every node of larderd. Without probes,
// since the process ends.
Object freeing_container(const CachePool& pool, const Defaults& defaults) {
  Object container = larderd_container(pool, std::nullopt, defaults);
  container["command"] =
      Object::array({"/usr/bin/larderd", "--config",
                     std::string(kConfigPath) + "/" + std::string(kConfigFile), "--free-memory"});
  for (const char* key : {"ports", "startupProbe", "livenessProbe", "readinessProbe"})
    container.erase(key);
  return container;
}

// A Secret of the chart that a pool names as well must stand in the list once: the name is the
// merge key of the list.
Object pull_secrets(const Object& more, const Defaults& defaults) {
  Object secrets = Object::array();
  const auto add = [&secrets](const std::string& name) {
    Object secret{{"name", name}};
    if (!name.empty() && std::ranges::find(secrets, secret) == secrets.end())
      secrets.push_back(std::move(secret));
  };
  // The kubelet ignores a missing pull Secret, so the chart's names may be absent in some
  // namespaces.
  for (const std::string& name : defaults.pull_secrets) add(name);
  if (more.is_array())
    for (const Object& secret : more) add(api::text_at(secret, "name"));
  return secrets;
}

Object payload_container(const CachePool& pool, const Defaults& defaults) {
  Object container{
      {"name", api::kPayloadContainer},
      {"image", image_of(pool, defaults)},
      {"command", Object::array({"/usr/bin/larderctl", "install-payload", kPayloadPath})},
      {"resources", payload_resources(pool)},
      {"securityContext", security_context(pool, {api::kUser, api::kUserGroup})},
      {"terminationMessagePolicy", "FallbackToLogsOnError"},
      {"volumeMounts", Object::array({volume_mount(api::kPayloadVolume, kPayloadPath, false)})}};
  set_if(container, "imagePullPolicy", pool.spec.image_pull_policy);
  return container;
}

}  // namespace larder::desired

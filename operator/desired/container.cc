#include <algorithm>
#include <string>
#include <vector>

#include "operator/api/names.h"
#include "operator/desired/image_name.h"
#include "operator/desired/larderd.h"
#include "operator/desired/larderd_user.h"
#include "operator/desired/paths.h"
#include "operator/desired/quantity.h"
#include "operator/desired/set_if.h"

namespace larder::desired {
namespace {

using api::CacheBackend;
using api::CachePool;
using api::Object;

constexpr std::string_view kCpuRequest = "100m";  // idle it takes about none; a core while it moves bytes of disk or backend
constexpr std::uint64_t kSmallMemory = 64ULL << 20;
// A start takes 0.1 s; one that reads a large disk's footers takes longer.
constexpr int kStartTries = 120, kStartEverySeconds = 1;
// Each probe runs a program for a few milliseconds.
constexpr int kProbeEverySeconds = 10, kProbeTimeoutSeconds = 5, kProbeTries = 6;
constexpr int kSupervisorEverySeconds = 30, kSupervisorTries = 4;  // a supervisor waits for no other process

bool on_node(const CachePool& pool) {
  return pool.spec.placement == api::Placement::kNode;
}

// Passes Pod Security `restricted`.
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

// What answers a probe: of a node's pod larderd itself, of an engine's pod its supervisor (sidecar/supervisor), which stays when larderd does
// not: there a container that is not up or not ready would take the engine with it.
std::string probed_socket(const CachePool& pool) {
  return std::string(kRunPath) + "/" + pool.name + (on_node(pool) ? ".admin" : ".supervisor");
}

// Over a Unix socket. A service mesh redirects the ports of a pod to its proxy, which runs after native sidecars, or wants a certificate.
Object probe(const CachePool& pool, std::string_view verb, int period_seconds, int tries) {
  return Object{{"exec", {{"command", Object::array({"/usr/bin/larderctl", "--socket", probed_socket(pool), verb})}}},
                {"periodSeconds", period_seconds},
                {"timeoutSeconds", kProbeTimeoutSeconds},
                {"failureThreshold", tries}};
}

// An engine's pod has no readiness probe: the container is ready once it has started, and a probe that a busy node answers late would
// take the engine out of its Service.
void add_probes(const CachePool& pool, Object& container) {
  const bool node = on_node(pool);
  container["startupProbe"] = probe(pool, node ? "ready" : "started", kStartEverySeconds, kStartTries);
  container["livenessProbe"] = node ? probe(pool, "alive", kProbeEverySeconds, kProbeTries)
                                    : probe(pool, "alive", kSupervisorEverySeconds, kSupervisorTries);
  if (node) container["readinessProbe"] = probe(pool, "ready", kProbeEverySeconds, kProbeTries);
}

// The supervisor answers probes at a socket, and the operator at a port where there is one.
Object command_of(const CachePool& pool, const EnginePod& engine) {
  const std::string config = std::string(kConfigPath) + "/" + std::string(kConfigFile);
  Object command = Object::array({"/usr/bin/larderd", "--config", config, "--watch-config"});
  if (on_node(pool)) return command;
  std::vector<std::string> addresses;
  if (!engine.host_network) addresses.push_back(":" + std::to_string(api::kSupervisorPort));
  addresses.push_back(probed_socket(pool));  // last: a larderd that knows one address, of an older spec.image, takes the last
  for (const std::string& address : addresses) {
    command.push_back("--supervise");
    command.push_back(address);
  }
  return command;
}

Object port(std::string_view name, int number) {
  return Object{{"name", name}, {"containerPort", number}, {"protocol", "TCP"}};
}

// With hostNetwork none: two such pods of a node would want the same.
Object ports_of(const CachePool& pool) {
  Object ports = Object::array({port("larder-metrics", api::kMetricsPort)});
  if (!on_node(pool)) ports.push_back(port("larder-probe", api::kSupervisorPort));
  return ports;
}

// What the user gave, and whatever of memory and huge pages the pool needs. The request of memory is its limit, so that the
// scheduler knows: larderd touches all of its arena.
Object resources_of(const CachePool& pool) {
  const api::PoolSpec& spec = pool.spec;
  Object resources = spec.resources.is_object() ? spec.resources : Object::object();
  Object& limits = resources["limits"];
  Object& requests = resources["requests"];
  if (!limits.is_object()) limits = Object::object();
  if (!requests.is_object()) requests = Object::object();
  if (!limits.contains("memory")) limits["memory"] = quantity(api::least_memory_limit(spec));
  if (!requests.contains("memory")) requests["memory"] = limits["memory"];
  if (!requests.contains("cpu")) requests["cpu"] = limits.value("cpu", Object(kCpuRequest));
  if (spec.memory.hugepages != api::Hugepages::kNone) {
    const std::string name = spec.memory.hugepages == api::Hugepages::k2Mi ? "hugepages-2Mi" : "hugepages-1Gi";
    limits[name] = requests[name] = quantity(spec.memory.size_bytes);
  }
  const bool local_disk = spec.disk && spec.disk->volume == api::DiskVolume::kEmptyDir;
  if (local_disk && !requests.contains("ephemeral-storage") && !limits.contains("ephemeral-storage"))
    requests["ephemeral-storage"] = quantity(disk_volume_bytes(*spec.disk));
  return resources;
}

Object mount(std::string_view volume, std::string_view path, bool read_only) {
  Object mount{{"name", volume}, {"mountPath", path}};
  if (read_only) mount["readOnly"] = true;
  return mount;
}

// What larderd writes to.
Object folders_of(const CachePool& pool) {
  Object mounts = Object::array({mount(api::kRunVolume, kRunPath, false), mount(api::kMemoryVolume, kMemoryPath, false)});
  if (pool.spec.memory.hugepages != api::Hugepages::kNone) mounts.push_back(mount(api::kHugepagesVolume, kHugepagesPath, false));
  if (pool.spec.disk) mounts.push_back(mount(api::kDiskVolume, kDiskPath, false));
  return mounts;
}

Object mounts_of(const CachePool& pool, const std::optional<CacheBackend>& backend) {
  Object mounts = folders_of(pool);
  mounts.push_back(mount(api::kConfigVolume, kConfigPath, true));
  const std::vector<Object> volumes = larderd_volumes(pool, backend);
  const auto has = [&volumes](std::string_view name) {
    return std::ranges::any_of(volumes, [name](const Object& volume) { return volume["name"] == name; });
  };
  if (has(api::kAuthVolume)) mounts.push_back(mount(api::kAuthVolume, kAuthPath, true));
  if (has(api::kTlsVolume)) mounts.push_back(mount(api::kTlsVolume, kTlsPath, true));
  return mounts;
}

Object environment_of(const CachePool& pool) {
  Object environment = Object::array();
  if (pool.spec.transfer != api::Transfer::kSidecar) return environment;
  // For NVIDIA's runtime: every GPU is visible, none is taken from the engine.
  environment.push_back(Object{{"name", "NVIDIA_VISIBLE_DEVICES"}, {"value", "all"}});
  environment.push_back(Object{{"name", "NVIDIA_DRIVER_CAPABILITIES"}, {"value", "compute,utility"}});
  return environment;
}

// Of containers that are done in a moment. Where larderd has a limit of cpu, the namespace may have a quota that wants one of each.
Object small_resources(const CachePool& pool) {
  const std::string memory = quantity(kSmallMemory);
  Object resources{{"requests", {{"cpu", "10m"}, {"memory", memory}}}, {"limits", {{"memory", memory}}}};
  if (!api::at(pool.spec.resources, "limits.cpu").is_null()) resources["limits"]["cpu"] = "1";
  return resources;
}

// Where the user wrote a request above our limit, or a limit below our request, ours gives way.
void keep_requests_within_limits(const Object& wanted, Object& resources) {
  for (const auto& [name, limit] : resources["limits"].items()) {
    Object& request = resources["requests"][name];
    const auto milli = [](const Object& value) {
      return api::quantity_milli(value.is_string() ? value.get<std::string>() : value.dump());
    };
    const Result<std::uint64_t> most = milli(limit), asked = request.is_null() ? milli("0") : milli(request);
    const bool chosen = !api::child(api::child(wanted, "limits"), name).is_null();
    if (most.ok() && asked.ok() && *asked > *most) (chosen ? request : resources["limits"][name]) = chosen ? limit : request;
    if (request.is_null()) request = limit;
  }
}

Object payload_resources(const CachePool& pool) {
  Object resources = small_resources(pool);
  const Object& wanted = pool.spec.injection.payload_resources;
  for (const char* section : {"limits", "requests"})
    if (const Object& amounts = api::child(wanted, section); amounts.is_object()) resources[section].update(amounts);
  if (!wanted.is_null()) keep_requests_within_limits(wanted, resources);
  return resources;
}

std::string image_of(const CachePool& pool, const Defaults& defaults) {
  if (pool.spec.image.empty()) return defaults.image;
  return in_registry(pool.spec.image, defaults.image_registry, Named::kByUser);
}

}  // namespace

Object larderd_container(const CachePool& pool, const std::optional<CacheBackend>& backend, const Defaults& defaults,
                         const EnginePod& engine) {
  Object container{{"name", api::kSidecarContainer},
                   {"image", image_of(pool, defaults)},
                   {"command", command_of(pool, engine)},
                   {"resources", resources_of(pool)},
                   {"securityContext", security_context(pool, larderd_user(pool))},
                   {"terminationMessagePolicy", "FallbackToLogsOnError"},
                   {"volumeMounts", mounts_of(pool, backend)}};
  set_if(container, "imagePullPolicy", pool.spec.image_pull_policy);
  if (Object environment = environment_of(pool); !environment.empty()) container["env"] = std::move(environment);
  if (!engine.host_network) container["ports"] = ports_of(pool);
  add_probes(pool, container);
  if (!on_node(pool) && defaults.native_sidecars) container["restartPolicy"] = "Always";
  return container;
}

Object folders_container(const CachePool& pool, const Defaults& defaults) {
  const LarderdUser who = larderd_user(pool);
  const Object folders = folders_of(pool);
  Object command =
      Object::array({"/usr/bin/larderctl", "init-volumes", std::to_string(who.user) + ":" + std::to_string(who.group)});
  for (const Object& folder : folders) command.push_back(folder["mountPath"]);
  // To give folders away, and to look into those of another user, whom the pool's podSecurity named before.
  Object security = security_context(pool, who);
  security.update({{"runAsUser", 0},
                   {"runAsNonRoot", false},
                   {"capabilities", {{"drop", Object::array({"ALL"})}, {"add", Object::array({"CHOWN", "DAC_READ_SEARCH"})}}}});
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

// With its resources and mounts: where larderd could run this can. It is not probed, since it ends.
Object freeing_container(const CachePool& pool, const Defaults& defaults) {
  Object container = larderd_container(pool, std::nullopt, defaults);
  container["command"] =
      Object::array({"/usr/bin/larderd", "--config", std::string(kConfigPath) + "/" + std::string(kConfigFile), "--free-memory"});
  for (const char* key : {"ports", "startupProbe", "livenessProbe", "readinessProbe"}) container.erase(key);
  return container;
}

Object pull_secrets(const Object& more, const Defaults& defaults) {
  Object secrets = Object::array();
  const auto add = [&secrets](const std::string& name) {
    Object secret{{"name", name}};
    if (!name.empty() && std::ranges::find(secrets, secret) == secrets.end()) secrets.push_back(std::move(secret));
  };
  for (const std::string& name : defaults.pull_secrets) add(name);
  if (more.is_array())
    for (const Object& secret : more) add(api::text_at(secret, "name"));
  return secrets;
}

Object payload_container(const CachePool& pool, const Defaults& defaults) {
  Object container{{"name", api::kPayloadContainer},
                   {"image", image_of(pool, defaults)},
                   {"command", Object::array({"/usr/bin/larderctl", "install-payload", kPayloadPath})},
                   {"resources", payload_resources(pool)},
                   {"securityContext", security_context(pool, {api::kUser, api::kUserGroup})},
                   {"terminationMessagePolicy", "FallbackToLogsOnError"},
                   {"volumeMounts", Object::array({mount(api::kPayloadVolume, kPayloadPath, false)})}};
  set_if(container, "imagePullPolicy", pool.spec.image_pull_policy);
  return container;
}

}  // namespace larder::desired

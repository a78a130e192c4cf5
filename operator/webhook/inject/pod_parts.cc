#include "operator/webhook/inject/pod_parts.h"

#include <algorithm>
#include <array>

#include "operator/api/names.h"
#include "operator/desired/plugin.h"
#include "operator/desired/quantity.h"
#include "operator/webhook/inject/gpu_access.h"
#include "operator/webhook/inject/limit_range.h"
#include "operator/webhook/inject/pod_form.h"
#include "operator/webhook/inject/pod_security.h"
#include "operator/webhook/inject/resource_quota.h"
#include "operator/webhook/inject/service_class.h"

namespace larder::webhook {
namespace {

using api::Object;

// Init containers of Istio, Linkerd, Kuma and Consul that set up the pod's network. Earlier
// containers have no network. Larder starts without one, and reaches its backend sooner after these
// containers.
constexpr std::array<std::string_view, 11> kNetworkFirst{
    "istio-init",       "istio-validation",          "istio-proxy",
    "linkerd-init",     "linkerd-network-validator", "linkerd-proxy",
    "kuma-init",        "kuma-validation",           "kuma-sidecar",
    "consul-dataplane", "consul-connect-inject-init"};
// A pod of several Consul services has one of each per service: NAME-SERVICE.
constexpr std::array<std::string_view, 2> kNetworkFirstOfService{"consul-connect-inject-init-",
                                                                 "consul-dataplane-"};

constexpr std::array<const char*, 5> kReadOnlyVolumes{"configMap", "secret", "projected",
                                                      "downwardAPI", "image"};

// The kubelet keeps at most five log files of 10 MiB for a container by default.
constexpr std::uint64_t kLogBytes = 64ULL << 20;

bool makes_network(std::string_view name) {
  return std::ranges::find(kNetworkFirst, name) != kNetworkFirst.end() ||
         std::ranges::any_of(kNetworkFirstOfService,
                             [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool on_node(const Input& input) {
  return input.pool->spec.placement == api::Placement::kNode;
}

// larderd starts first, so that it touches its memory while models are fetched, but after
// containers that set up the network.
std::size_t place_among(const Object& init_containers) {
  std::size_t place = 0;
  for (std::size_t at = 0; at < init_containers.size(); ++at)
    if (makes_network(api::text_at(init_containers[at], "name"))) place = at + 1;
  return place;
}

// "/larder/" and "/larder" are one place.
std::string normal_path(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

// Whether the kubelet mounts the volume read-only, by the mount or by the kind of the volume.
bool is_read_only(const Object& mount, const Object& pod) {
  if (api::truth_at(mount, "readOnly")) return true;
  for (const Object& volume : api::at(pod, "spec.volumes")) {
    if (api::text_at(volume, "name") != api::text_at(mount, "name")) continue;
    return std::ranges::any_of(kReadOnlyVolumes,
                               [&volume](const char* kind) { return volume.contains(kind); }) ||
           api::truth_at(volume, "persistentVolumeClaim.readOnly");
  }
  return false;
}

// Keeps fields that the pool's user wrote.
void set_ids(Object& container, std::optional<std::int64_t> user, std::optional<std::int64_t> group,
             const Input& input) {
  Object& security = container["securityContext"];
  for (const auto& [key, id] : {std::pair{"runAsUser", user}, std::pair{"runAsGroup", group}})
    if (id)
      security[key] = *id;
    else if (api::child(input.pool->spec.pod_security, key).is_null())
      security.erase(key);
}

// Ephemeral storage that comes with larderd: its logs, the payload's volume and its disk.
std::uint64_t storage_of_larderd(const api::PoolSpec& spec) {
  const bool on_emptydir = spec.disk && spec.disk->volume == api::DiskVolume::kEmptyDir;
  return kLogBytes + desired::kPayloadBytes +
         (on_emptydir ? desired::disk_volume_bytes(*spec.disk) : 0);
}

// Fits the resources of an added container to pod and namespace. `wanted`: the user's resources, or
// null. `storage`: as added_bytes of fit_storage().
// The order matters: the class of the pod gives limits, quotas demand some, and LimitRanges check
// all of them.
void fit_resources(Object& container, const Object& wanted, const Object& pod, const Input& input,
                   std::uint64_t storage = kLogBytes) {
  if (is_guaranteed(pod)) guarantee(container, wanted);
  if (has_cpu_limits(pod)) limit_cpu(container);
  fit_storage(container, pod, storage);
  fit_quotas(container, pod, input.surroundings);
  fit_limit_ranges(container, wanted, input.surroundings);
}

void give_notice(Object& pod, std::string notice) {
  if (!notice.empty())
    map_in(map_in(pod, "metadata"), "annotations")[std::string(api::kNoticeAnnotation)] =
        std::move(notice);
}

// Why the namespace would refuse the pod with the plug-in; "": the namespace admits the plug-in.
// Pod Security baseline and restricted allow no IPC_LOCK.
std::string refused_plugin(const Input& input) {
  const std::optional<std::string> level = enforced_level(input);
  if (!input.backend->spec.mooncake.rdma || !level || *level == "privileged") return "";
  return "the pod runs without larder-mooncake: protocol rdma of CacheBackend " +
         input.backend->name + " needs IPC_LOCK, which Pod Security " + *level +
         " of the namespace refuses; use protocol tcp, or label the namespace with " +
         std::string(kPodSecurityLabel) + ": privileged";
}

// The plug-in of the pool's backend; empty: none.
std::optional<Object> plugin_container(Object& pod, const Input& input, const UserIds& ids) {
  std::optional<Object> plugin =
      desired::plugin_container(*input.pool, input.backend, input.defaults);
  if (!plugin) return std::nullopt;
  if (std::string why = refused_plugin(input); !why.empty()) {
    give_notice(pod, std::move(why));
    return std::nullopt;
  }
  // RDMA needs root (desired/plugin.cc).
  if (!input.backend->spec.mooncake.rdma) set_ids(*plugin, ids.plugin, ids.group, input);
  // The memory stays: less than that of the plug-in would end in a kill. A limit of the namespace
  // refuses the pod instead.
  const Object memory = (*plugin)["resources"]["limits"]["memory"];
  fit_resources(*plugin, {{"limits", {{"memory", memory}}}, {"requests", {{"memory", memory}}}},
                input.pod, input);
  return plugin;
}

}  // namespace

// Invariant: a pod that passes Pod Security `restricted` still passes afterwards (tests/component).
// The added containers come from operator/desired with the security context for it.
void add_containers(Object& pod, const Input& input, const std::vector<EngineContainer>& engines,
                    const UserIds& ids) {
  Object& spec = pod["spec"];
  Object payload = desired::payload_container(*input.pool, input.defaults);
  set_ids(payload, ids.payload, ids.payload_group, input);
  fit_resources(payload, input.pool->spec.injection.payload_resources, input.pod, input);
  Object init = Object::array({std::move(payload)});
  if (!on_node(input)) {
    const desired::EnginePod engine_pod{api::truth_at(pod, "spec.hostNetwork")};
    Object larderd =
        desired::larderd_container(*input.pool, input.backend, input.defaults, engine_pod);
    set_ids(larderd, ids.user, ids.group, input);
    fit_resources(larderd, input.pool->spec.resources, input.pod, input,
                  storage_of_larderd(input.pool->spec));
    give_notice(pod, give_gpu(pod, larderd, spec["containers"][engines.front().index], input));
    // Before larderd, so that the plug-in ends after larderd: larderd still writes at its end.
    if (std::optional<Object> plugin = plugin_container(pod, input, ids))
      (input.defaults.native_sidecars ? init : spec["containers"]).push_back(*std::move(plugin));
    // Before Kubernetes 1.29 larderd is a normal container and starts together with the engine.
    if (input.defaults.native_sidecars)
      init.push_back(std::move(larderd));
    else
      spec["containers"].push_back(std::move(larderd));
  }
  Object& list = list_in(spec, "initContainers");
  const auto place = static_cast<std::ptrdiff_t>(place_among(list));
  list.insert(list.begin() + place, init.begin(), init.end());
}

void add_pull_secrets(Object& pod, const Input& input) {
  const Object wanted = desired::pull_secrets(input.pool->spec.pull_secrets, input.defaults);
  if (wanted.empty()) return;
  Object& secrets = list_in(pod["spec"], "imagePullSecrets");
  const auto has = [&secrets](const std::string& name) {
    return std::ranges::any_of(
        secrets, [&](const Object& secret) { return api::text_at(secret, "name") == name; });
  };
  // The pod's own Secrets stay in front.
  for (const Object& secret : wanted)
    if (!has(api::text_at(secret, "name"))) secrets.push_back(secret);
}

void add_volumes(Object& pod, const Input& input) {
  Object& list = list_in(pod["spec"], "volumes");
  const std::vector<Object> volumes = on_node(input)
                                          ? desired::engine_volumes(*input.pool)
                                          : desired::larderd_volumes(*input.pool, input.backend);
  for (const Object& volume : volumes) list.push_back(volume);
}

void add_groups(Object& pod, const Input& input, const UserIds& ids) {
  Object& security = map_in(pod["spec"], "securityContext");
  const Object wanted = desired::engine_pod_security(*input.pool);
  if (ids.group) {
    Object& groups = list_in(security, "supplementalGroups");
    if (std::ranges::find(groups, Object(*ids.group)) == groups.end()) groups.push_back(*ids.group);
  }
  // fsGroup only where no other writer set one: it changes the group of all volumes of the pod.
  if (!wanted.contains("fsGroup") || !ids.volume_group) return;
  for (const auto& [key, value] : {std::pair{"fsGroup", Object(*ids.volume_group)},
                                   std::pair{"fsGroupChangePolicy", wanted["fsGroupChangePolicy"]}})
    if (!security.contains(key) || security[key].is_null()) security[key] = value;
}

// A mount over Larder's path would hide the socket or the package. A mount inside Larder's path, or
// read-only around it, would keep the container from starting: the runtime makes the folder of the
// inner mount in the outer one.
Status add_mounts(Object& container, const Input& input) {
  Object& mounts = list_in(container, "volumeMounts");
  for (Object& mount : desired::engine_mounts(*input.pool)) {
    const std::string path = api::text_at(mount, "mountPath");
    for (const Object& other : mounts) {
      const std::string theirs = normal_path(api::text_at(other, "mountPath"));
      const std::string begins = "the container has a mount at " + theirs + ", ";
      if (theirs == path)
        return {Code::kUnsupported, begins + "the place of Larder's mount; choose another path"};
      if (theirs.starts_with(path + "/"))
        return {Code::kUnsupported,
                begins + "inside Larder's read-only mount at " + path + "; choose another path"};
      if (path.starts_with(theirs + "/") && is_read_only(other, input.pod))
        return {Code::kUnsupported, begins + "read-only around Larder's mount at " + path +
                                        "; choose another path, or a volume that can be written"};
    }
    mounts.push_back(std::move(mount));
  }
  return {};
}

}  // namespace larder::webhook

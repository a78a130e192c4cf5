#include "operator/desired/mooncake.h"

#include "operator/api/names.h"
#include "operator/desired/container_parts.h"
#include "operator/desired/image_name.h"
#include "operator/desired/object_head.h"
#include "operator/desired/paths.h"
#include "operator/desired/quantity.h"
#include "operator/desired/set_if.h"

namespace larder::desired {
namespace {

using api::CacheBackend;
using api::CachePool;
using api::Object;

// Of each process with Mooncake's client: about 150 MiB were measured.
constexpr std::uint64_t kProcessMemory = 192ULL << 20;
constexpr std::string_view kCpuRequest = "100m";  // Mooncake's copies take up to a core

// Whole MiB, since "500M" of Kubernetes is no unit of the plug-in.
std::uint64_t contributed_mib(const api::MooncakeSpec& mooncake) {
  return mooncake.contribute_bytes >> 20;
}

// The plug-in itself, and the process that holds the contributed memory.
std::uint64_t memory_of(const api::MooncakeSpec& mooncake) {
  const std::uint64_t contributed = contributed_mib(mooncake) << 20;
  const std::uint64_t owner = contributed == 0 ? 0 : kProcessMemory + contributed;
  return kPluginRegion + kProcessMemory + owner;
}

Object resources_of(const CachePool& pool, const api::MooncakeSpec& mooncake) {
  Object resources = own_resources(pool, kCpuRequest, memory_of(mooncake));
  if (mooncake.rdma) resources["limits"][mooncake.device_resource] = "1";
  return resources;
}

// RDMA locks the region in memory. IPC_LOCK has an effect for root alone: a container of another
// user gets no added capability. The socket admits root by larderd's group.
Object security_of(const CachePool& pool, const api::MooncakeSpec& mooncake) {
  Object security = security_context(pool, plugin_user(pool));
  if (mooncake.rdma)
    security.update({{"runAsUser", 0},
                     {"runAsNonRoot", false},
                     {"capabilities",
                      {{"drop", Object::array({"ALL"})}, {"add", Object::array({"IPC_LOCK"})}}}});
  return security;
}

Object command_of(const CachePool& pool, const CacheBackend& backend) {
  const api::MooncakeSpec& mooncake = backend.spec.mooncake;
  // The socket is the one that larderd derives from its own: POOL.plugin beside POOL.sock.
  Object command =
      Object::array({"python3", "-m", "larder_mooncake", "--socket",
                     std::string(kRunPath) + "/" + pool.name + ".plugin", "--master",
                     backend.spec.endpoints.front(), "--protocol", mooncake.rdma ? "rdma" : "tcp"});
  const auto add = [&command](const char* flag, const std::string& value) {
    command.push_back(flag);
    command.push_back(value);
  };
  std::string devices;
  for (const std::string& device : mooncake.devices)
    devices += (devices.empty() ? "" : ",") + device;
  if (!devices.empty()) add("--devices", devices);
  if (const std::uint64_t mib = contributed_mib(mooncake); mib != 0)
    add("--contribute", std::to_string(mib) + "MiB");
  return command;
}

Object variable(const char* name, int value) {
  return Object{{"name", name}, {"value", std::to_string(value)}};
}

}  // namespace

std::optional<Object> mooncake_container(const CachePool& pool, const CacheBackend& backend,
                                         const Defaults& defaults) {
  if (defaults.mooncake_image.empty()) return std::nullopt;
  const api::MooncakeSpec& mooncake = backend.spec.mooncake;
  Object container{
      {"name", api::kMooncakeContainer},
      {"image", in_registry(defaults.mooncake_image, defaults.image_registry, Named::kByUser)},
      {"command", command_of(pool, backend)},
      // Without the range, mooncake_policy() could not name the ports.
      {"env", Object::array({variable("MC_MIN_RPC_PORT", api::kMooncakeFirstPort),
                             variable("MC_MAX_RPC_PORT", api::kMooncakeLastPort)})},
      {"resources", resources_of(pool, mooncake)},
      {"securityContext", security_of(pool, mooncake)},
      {"terminationMessagePolicy", "FallbackToLogsOnError"},
      // Of all volumes of larderd, the socket's alone, as engines have it.
      {"volumeMounts", Object::array({volume_mount(api::kRunVolume, kRunPath, true)})}};
  set_if(container, "imagePullPolicy", pool.spec.image_pull_policy);
  const bool sidecar = pool.spec.placement == api::Placement::kSidecar;
  if (sidecar && defaults.native_sidecars) container["restartPolicy"] = "Always";
  return container;
}

Object mooncake_labels(const CacheBackend& backend) {
  return Object{{std::string(api::kMooncakeLabel), backend.name}};
}

std::string mooncake_name(const CachePool& pool) {
  return pool_name(pool) + "-mooncake";
}

Object mooncake_policy(const CachePool& pool, const CacheBackend& backend, Isolation isolation) {
  Object policy = object_head("networking.k8s.io/v1", "NetworkPolicy", pool);
  policy["metadata"]["name"] = mooncake_name(pool);
  Object from =
      Object::array({Object{{"podSelector", {{"matchLabels", mooncake_labels(backend)}}}}});
  for (const Object& more : backend.spec.mooncake.members_from) from.push_back(more);
  Object pods = mooncake_labels(backend);
  pods[std::string(api::kPoolLabel)] = pool.name;
  policy["spec"] = port_guard(std::move(pods), kMooncakePorts, std::move(from),
                              guarded_ports(pool, backend), isolation);
  return policy;
}

}  // namespace larder::desired

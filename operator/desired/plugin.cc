#include "operator/desired/plugin.h"

#include <vector>

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
constexpr std::uint64_t kMooncakeProcess = 192ULL << 20;
// Of both processes of larder-infinistore, and of the kernel's buffers for up to 18 connections.
// 40 MiB were measured without the buffers.
constexpr std::uint64_t kInfiniStoreProcesses = 128ULL << 20;

// The parts of the container that depend on the service.
struct Needs {
  std::uint64_t memory;  // beside the shared region
  std::vector<std::string> arguments = {};
  Object variables = Object::array();
  // The resource of an RDMA device. RDMA locks the region in memory.
  std::string device = {};
};

Object variable(const char* name, int value) {
  return Object{{"name", name}, {"value", std::to_string(value)}};
}

Needs needs_of_mooncake(const api::BackendSpec& spec) {
  const api::MooncakeSpec& mooncake = spec.mooncake;
  const api::PortRange ports = api::plugin_of(spec.type)->ports;
  Needs needs{kMooncakeProcess};
  needs.arguments = {"--master", spec.endpoints.front(), "--protocol",
                     mooncake.rdma ? "rdma" : "tcp"};
  std::string devices;
  for (const std::string& device : mooncake.devices)
    devices += (devices.empty() ? "" : ",") + device;
  if (!devices.empty()) needs.arguments.insert(needs.arguments.end(), {"--devices", devices});
  // Whole MiB, since "500M" of Kubernetes is no unit of the plug-in. Another process holds the
  // contributed memory.
  if (const std::uint64_t mib = mooncake.contribute_bytes >> 20; mib != 0) {
    needs.arguments.insert(needs.arguments.end(), {"--contribute", std::to_string(mib) + "MiB"});
    needs.memory += kMooncakeProcess + (mib << 20);
  }
  // Without the range, plugin_policy() could not name the ports.
  needs.variables = Object::array(
      {variable("MC_MIN_RPC_PORT", ports.first), variable("MC_MAX_RPC_PORT", ports.last)});
  needs.device = mooncake.device_resource;
  return needs;
}

// REQUIRES: a type with a plug-in.
Needs needs_of(const api::BackendSpec& spec) {
  // larder-infinistore takes the server from larderd's backend.url.
  return spec.type == api::BackendType::kMooncake ? needs_of_mooncake(spec)
                                                  : Needs{kInfiniStoreProcesses};
}

Object resources_of(const CachePool& pool, const Needs& needs) {
  Object resources = own_resources(pool, kCpuRequest, kPluginRegion + needs.memory);
  if (!needs.device.empty()) resources["limits"][needs.device] = "1";
  return resources;
}

// IPC_LOCK has an effect for root alone: a container of another user gets no added capability. The
// socket admits root by larderd's group.
Object security_of(const CachePool& pool, const Needs& needs) {
  Object security = security_context(pool, plugin_user(pool));
  if (!needs.device.empty())
    security.update({{"runAsUser", 0},
                     {"runAsNonRoot", false},
                     {"capabilities",
                      {{"drop", Object::array({"ALL"})}, {"add", Object::array({"IPC_LOCK"})}}}});
  return security;
}

Object command_of(const CachePool& pool, const api::Plugin& plugin, const Needs& needs) {
  // The socket is the one that larderd derives from its own: POOL.plugin beside POOL.sock.
  Object command = Object::array({"python3", "-m", plugin.module, "--socket",
                                  std::string(kRunPath) + "/" + pool.name + ".plugin"});
  for (const std::string& argument : needs.arguments) command.push_back(argument);
  return command;
}

}  // namespace

std::string plugin_image(const CacheBackend& backend, const Defaults& defaults) {
  const auto found = defaults.plugin_images.find(backend.spec.type);
  return found == defaults.plugin_images.end() ? "" : found->second;
}

std::optional<Object> plugin_container(const CachePool& pool,
                                       const std::optional<CacheBackend>& backend,
                                       const Defaults& defaults) {
  const api::Plugin* plugin = api::plugin_of(backend);
  if (!plugin) return std::nullopt;
  const std::string image = plugin_image(*backend, defaults);
  if (image.empty()) return std::nullopt;
  const Needs needs = needs_of(backend->spec);
  Object container{
      {"name", plugin->container},
      {"image", in_registry(image, defaults.image_registry, Named::kByUser)},
      {"command", command_of(pool, *plugin, needs)},
      {"resources", resources_of(pool, needs)},
      {"securityContext", security_of(pool, needs)},
      {"terminationMessagePolicy", "FallbackToLogsOnError"},
      // Of all volumes of larderd, the socket's alone, as engines have it.
      {"volumeMounts", Object::array({volume_mount(api::kRunVolume, kRunPath, true)})}};
  set_if(container, "env", needs.variables);
  set_if(container, "imagePullPolicy", pool.spec.image_pull_policy);
  const bool sidecar = pool.spec.placement == api::Placement::kSidecar;
  if (sidecar && defaults.native_sidecars) container["restartPolicy"] = "Always";
  return container;
}

Object plugin_labels(const std::optional<CacheBackend>& backend) {
  Object labels = Object::object();
  if (const api::Plugin* plugin = api::plugin_of(backend))
    labels[std::string(plugin->label)] = backend->name;
  return labels;
}

std::string plugin_policy_name(const CachePool& pool, const api::Plugin& plugin) {
  return pool_name(pool) + "-" + std::string(plugin.scheme);
}

std::optional<Object> plugin_policy(const CachePool& pool,
                                    const std::optional<CacheBackend>& backend,
                                    Isolation isolation) {
  const api::Plugin* plugin = api::listening_plugin_of(backend);
  if (!plugin) return std::nullopt;
  Object policy = object_head("networking.k8s.io/v1", "NetworkPolicy", pool);
  policy["metadata"]["name"] = plugin_policy_name(pool, *plugin);
  Object from = Object::array({Object{{"podSelector", {{"matchLabels", plugin_labels(backend)}}}}});
  for (const Object& more : backend->spec.mooncake.members_from) from.push_back(more);
  Object pods = plugin_labels(backend);
  pods[std::string(api::kPoolLabel)] = pool.name;
  policy["spec"] = port_guard(std::move(pods), plugin->ports, std::move(from),
                              guarded_ports(pool, backend), isolation);
  return policy;
}

}  // namespace larder::desired

#include "operator/webhook/inject/obstacles.h"

#include <algorithm>
#include <array>

#include "operator/api/names.h"
#include "operator/webhook/inject/shell_words.h"

namespace larder::webhook {
namespace {

using api::Object;

constexpr std::array<std::string_view, 9> kVolumes{
    api::kRunVolume,     api::kMemoryVolume, api::kHugepagesVolume,
    api::kPayloadVolume, api::kConfigVolume, api::kDiskVolume,
    api::kAuthVolume,    api::kTlsVolume,    api::kPeersVolume};

std::string quoted(const std::string& name) {
  return "\"" + name + "\"";
}

std::string of_pool(const Input& input) {
  if (input.pool) return "";
  return "there is no CachePool " + quoted(input.pool_name) + " in namespace " + quoted(input.ns) +
         "; create it, then start the pod anew";
}

// Only "true" and "false" have a meaning. A typing error must not be taken for either.
std::string of_words(const Input& input) {
  const std::string said = api::annotation(input.pod, api::kInjectAnnotation).value_or("true");
  if (said == "true") return "";
  return "the pod's annotation " + std::string(api::kInjectAnnotation) + " is " + quoted(said) +
         "; write \"false\" for a pod without a cache, or remove the annotation";
}

// spec.os is optional; the label of the node selector is the older way.
std::string of_system(const Input& input) {
  if (api::text_at(input.pod, "spec.os.name") == "windows")
    return "the pod is a Windows pod; larderd runs on Linux only";
  const Object& selector = api::at(input.pod, "spec.nodeSelector");
  if (selector.is_object())
    if (const auto os = selector.find("kubernetes.io/os"); os != selector.end() && *os == "windows")
      return "the pod runs on Windows nodes; larderd runs on Linux only";
  // The kubelet runs a static pod from a file on the node. The API server only has its mirror.
  if (api::annotation(input.pod, "kubernetes.io/config.mirror"))
    return "the pod mirrors a static pod, which the kubelet runs from a file and no webhook can "
           "change; use a Deployment";
  return "";
}

// A second container or volume of the name would make the pod invalid.
std::string of_names(const Input& input) {
  const std::string rename = ", a name of Larder's own; rename the ";
  for (const char* list : {"spec.containers", "spec.initContainers", "spec.ephemeralContainers"})
    for (const Object& container : api::at(input.pod, list))
      if (const std::string name = api::text_at(container, "name"); api::is_injected(name))
        return "the pod has a container " + quoted(name) + rename + "container";
  for (const Object& volume : api::at(input.pod, "spec.volumes"))
    if (const std::string name = api::text_at(volume, "name"); one_of(name, kVolumes))
      return "the pod has a volume " + quoted(name) + rename + "volume";
  return "";
}

// Resources of the whole pod limit the sum over its containers. larderd's resources would exceed
// the limit, and the API server would refuse the pod.
std::string of_resources(const Input& input) {
  const Object& resources = api::at(input.pod, "spec.resources");
  const bool sets =
      resources.is_object() && (resources.contains("requests") || resources.contains("limits"));
  if (!sets || input.pool->spec.placement == api::Placement::kNode) return "";
  return "the pod sets spec.resources for the whole pod, without room for larderd's memory; set "
         "resources on the containers instead";
}

// Ports of larderd and its supervisor, since all containers of a pod share one network.
std::string ours(std::int64_t port, const Input& input) {
  if (port == api::kPeersPort && input.pool->spec.peers)
    return std::to_string(port) + ", which larderd uses for peers";
  if (const api::Plugin* plugin = api::listening_plugin_of(input.backend);
      plugin && port >= plugin->ports.first && port <= plugin->ports.last)
    return std::to_string(port) + ", one of those that " + std::string(plugin->service) + " uses";
  if (port == api::kMetricsPort) return std::to_string(port) + ", which larderd uses for metrics";
  return port == api::kSupervisorPort
             ? std::to_string(port) + ", which larderd's supervisor uses for the operator"
             : "";
}
// With hostNetwork larderd opens no port (desired/container.cc).
std::string of_ports(const Input& input) {
  if (input.pool->spec.placement == api::Placement::kNode ||
      api::truth_at(input.pod, "spec.hostNetwork"))
    return "";
  for (const char* list : {"spec.containers", "spec.initContainers"})
    for (const Object& container : api::at(input.pod, list))
      for (const Object& port : api::at(container, "ports"))
        if (const std::string what = ours(api::number_at(port, "containerPort"), input);
            !what.empty())
          return "container " + api::text_at(container, "name") + " has port " + what +
                 "; give the container another port";
  return "";
}

// Without native sidecars larderd is a normal container, and would keep the pod of an ended engine
// running.
std::string of_restarts(const Input& input) {
  if (input.defaults.native_sidecars || input.pool->spec.placement == api::Placement::kNode)
    return "";
  const std::string policy = api::text_at(input.pod, "spec.restartPolicy");
  if (policy.empty() || policy == "Always") return "";
  return "the pod's restartPolicy is " + policy +
         " and the cluster is older than Kubernetes 1.29, so larderd would keep the pod from "
         "ending; use placement Node, or a newer cluster";
}

}  // namespace

// The first obstacle only: one reason and one remedy at a time.
std::string obstacle(const Input& input) {
  if (std::string why = of_pool(input); !why.empty()) return why;
  for (const auto check : {of_words, of_system, of_names, of_resources, of_ports, of_restarts})
    if (std::string why = check(input); !why.empty()) return why;
  return "";
}

}  // namespace larder::webhook

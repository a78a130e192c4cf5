#include "operator/webhook/inject/pod_marks.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/names.h"
#include "operator/desired/peer_objects.h"
#include "operator/desired/plugin.h"
#include "operator/webhook/inject/pod_form.h"

namespace larder::webhook {
namespace {

using api::Object;

// Velero would copy the volumes of the cache into each backup of the pod.
constexpr std::string_view kNotBackedUp = "backup.velero.io/backup-volumes-excludes";

// Names are compared whole: "run" is not in "larder-run".
bool is_listed(std::string_view list, std::string_view name) {
  while (true) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
}

// Keeps the user's own entries of the list.
void add_to_list(Object& annotations, std::string_view key, const std::vector<std::string>& names) {
  std::string list = annotations.contains(key) ? annotations[key].get<std::string>() : "";
  for (const std::string& name : names)
    if (!is_listed(list, name)) list += (list.empty() ? "" : ",") + name;
  if (!list.empty()) annotations[key] = list;
}

void add_missing(Object& entries, const Object& wanted) {
  if (!wanted.is_object()) return;
  for (const auto& [key, value] : wanted.items())
    if (!entries.contains(key)) entries[key] = value;
}

}  // namespace

Object& annotations_of(Object& pod) {
  return map_in(map_in(pod, "metadata"), "annotations");
}

// The annotations record with what the pod was made: the operator compares the hash with the pool's
// present one, and patches the configuration of a running larderd. In placement Node larderd's
// configuration is in its own pod.
void mark_injected(Object& pod, const Input& input) {
  Object& annotations = annotations_of(pod);
  annotations[std::string(api::kInjectedAnnotation)] = LARDER_VERSION "/" + input.pool->name;
  // An earlier refusal is over: a template may carry its annotation.
  annotations.erase(std::string(api::kNotInjectedAnnotation));
  map_in(pod["metadata"], "labels")[std::string(api::kPoolLabel)] =
      input.pool->name;  // for selectors
  if (input.pool->spec.placement == api::Placement::kNode) {
    annotations[std::string(api::kRestartAnnotation)] =
        desired::engine_hash(*input.pool, input.defaults);
    return;
  }
  const desired::EnginePod engine{api::truth_at(pod, "spec.hostNetwork")};
  if (input.pool->spec.peers && !engine.host_network)
    pod["metadata"]["labels"].update(desired::peers_labels(*input.pool));
  if (!engine.host_network) pod["metadata"]["labels"].update(desired::plugin_labels(input.backend));
  annotations[std::string(api::kConfigAnnotation)] =
      desired::larderd_config(*input.pool, input.backend, engine);
  annotations[std::string(api::kRestartAnnotation)] =
      desired::restart_hash(*input.pool, input.backend, input.defaults, engine);
}

// The pod's own labels and annotations win over the pool's.
void add_pool_marks(Object& pod, const api::CachePool& pool) {
  if (pool.spec.injection.labels.is_object())
    add_missing(map_in(map_in(pod, "metadata"), "labels"), pool.spec.injection.labels);
  add_missing(annotations_of(pod), pool.spec.injection.annotations);
}

// A user's volume of the pod keeps its treatment by autoscaler and backups.
void mark_volumes(Object& pod, const Object& before) {
  const Object& users = api::at(before, "spec.volumes");
  std::vector<std::string> local, backed_up;
  for (const Object& volume : pod["spec"]["volumes"]) {
    const std::string name = api::text_at(volume, "name");
    if (std::ranges::any_of(
            users, [&name](const Object& one) { return api::text_at(one, "name") == name; }))
      continue;
    // The cluster autoscaler leaves nodes alone whose pods have local volumes that are not listed.
    const bool empty = volume.contains("emptyDir");
    if (empty || volume.contains("hostPath")) local.push_back(name);
    if (empty || volume.contains("ephemeral")) backed_up.push_back(name);
  }
  add_to_list(annotations_of(pod), api::kMovableVolumesAnnotation, local);
  add_to_list(annotations_of(pod), kNotBackedUp, backed_up);
}

}  // namespace larder::webhook

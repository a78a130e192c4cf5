#include "operator/kubectl/planned_pods.h"

#include <algorithm>
#include <array>

#include "operator/api/names.h"
#include "operator/kubectl/printable_text.h"
#include "sidecar/base/text.h"

namespace larder::kubectl {
namespace {

using api::Object;

// The API server adds five random letters to generateName.
constexpr std::size_t kMostPrefixBytes = 50;  // of the prefix of a generated name
// Objects that a pod refers to by name, and that the same files may create.
constexpr std::array<std::string_view, 7> kNeeded{"Namespace",     "ServiceAccount", "CachePool",
                                                  "PriorityClass", "RuntimeClass",   "StorageClass",
                                                  "CacheBackend"};

bool has_containers(const Object& pod) {
  const Object& containers = api::at(pod, "spec.containers");
  return containers.is_array() && !containers.empty() && containers.front().is_object();
}

// template, podTemplate, workerTemplate and the like: kinds of other operators need no entry here.
bool names_a_template(std::string_view key) {
  return key.size() >= 8 && base::lower(key).ends_with("template");
}

// Calls the function with each pod template below `object` and the template's path.
// The search ends at a template: templates inside a pod's spec (ephemeral volumes) are no pods.
template <typename Call>
void each_template(const Object& object, const std::string& path, int depth, const Call& call) {
  if (depth > api::kMostDepth) return;
  if (object.is_array())
    for (std::size_t i = 0; i < object.size(); ++i)
      each_template(object[i], path + "[" + std::to_string(i) + "]", depth + 1, call);
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items()) {
    const std::string below = path.empty() ? key : path + "." + key;
    if (names_a_template(key) && has_containers(value))
      call(value, base::printable(below));
    else
      each_template(value, below, depth + 1, call);
  }
}

// Adds volumes like the controller does; pods mount the volumes by the claims' names.
void add_claimed_volumes(const Object& set, Object& spec) {
  const Object& claims = api::at(set, "spec.volumeClaimTemplates");
  if (!claims.is_array()) return;
  Object volumes = Object::array();
  std::vector<std::string> claimed;
  for (const Object& claim : claims) {
    claimed.push_back(api::name_of(claim));
    const std::string of_first = claimed.back() + "-" + api::name_of(set) + "-0";
    volumes.push_back(
        {{"name", claimed.back()}, {"persistentVolumeClaim", {{"claimName", of_first}}}});
  }
  for (const Object& volume : api::child(spec, "volumes"))
    if (std::ranges::find(claimed, api::text_at(volume, "name")) == claimed.end())
      volumes.push_back(volume);
  spec["volumes"] = std::move(volumes);
}

// Labels that make a pod part of a group.
// KubeRay's operator adds these labels to the pods; the injector reads them (inject/ray_group.cc).
void add_ray_labels(const PlannedPod& planned, Object& metadata) {
  if (!planned.kind.starts_with("Ray")) return;
  if (!api::child(metadata, "labels").is_object()) metadata["labels"] = Object::object();
  metadata["labels"]["ray.io/cluster"] = planned.name;
  metadata["labels"]["ray.io/node-type"] =
      planned.path.find("headGroupSpec") != std::string::npos ? "head" : "worker";
}

// Marks of LeaderWorkerSet and JobSet, which the injector reads too: without them the leader of a
// group that is left alone would seem to get a cache.
void add_group_marks(const PlannedPod& planned, const Object& object, Object& metadata) {
  const auto mark = [&metadata](const char* map, const char* key, const std::string& value) {
    if (!api::child(metadata, map).is_object()) metadata[map] = Object::object();
    metadata[map][key] = value;
  };
  if (planned.kind == "LeaderWorkerSet") {
    mark("labels", "leaderworkerset.sigs.k8s.io/name", planned.name);
    mark("annotations", "leaderworkerset.sigs.k8s.io/size",
         std::to_string(api::number_at(object, "spec.leaderWorkerTemplate.size", 1)));
  }
  if (planned.kind == "JobSet") mark("labels", "jobset.sigs.k8s.io/jobset-name", planned.name);
}

// Fields that the API server wrote into a live pod do not belong in a new one.
Object pod_of(const PlannedPod& planned, const Object& object, const Object& from) {
  Object pod = {{"apiVersion", "v1"},
                {"kind", "Pod"},
                {"metadata", Object::object()},
                {"spec", api::at(from, "spec")}};
  Object& metadata = pod["metadata"];
  for (const char* kept : {"annotations", "labels", "ownerReferences"})
    if (const Object& value = api::at(api::child(from, "metadata"), kept); !value.is_null())
      metadata[kept] = value;
  const std::string name = planned.name.empty() ? "pod" : planned.name.substr(0, kMostPrefixBytes);
  metadata["generateName"] = name.ends_with('-') ? name : name + "-";
  if (!planned.ns.empty()) metadata["namespace"] = planned.ns;
  if (planned.kind == "StatefulSet") add_claimed_volumes(object, pod["spec"]);
  add_ray_labels(planned, metadata);
  add_group_marks(planned, object, metadata);
  return pod;
}

// replicas of Deployment and StatefulSet; parallelism of a Job.
std::int64_t copies_of(const Object& object) {
  return api::number_at(object, "spec.replicas", api::number_at(object, "spec.parallelism", 1));
}

// Whether the group is foreign (not of Kubernetes or Larder). Its controller may create pods.
bool is_of_somebody_else(const Object& object) {
  const std::string version = api::text_at(object, "apiVersion");
  const std::string group = version.substr(0, std::min(version.find('/'), version.size()));
  return version.find('/') != std::string::npos && group.find('.') != std::string::npos &&
         !group.ends_with(".k8s.io") && group != api::kGroup;
}

}  // namespace

std::string PlannedPod::title(bool with_path) const {
  return kind + " " + (ns.empty() ? "" : ns + "/") + name +
         (with_path && !path.empty() ? ", " + path : "");
}

Planned planned_pods(const std::vector<Object>& objects) {
  Planned all;
  for (const Object& object : objects) {
    PlannedPod planned{printable_text(object, "kind"),
                       printable_text(object, "metadata.namespace"),
                       printable_text(object, "metadata.name"),
                       "",
                       1,
                       {},
                       {}};
    if (planned.name.empty()) planned.name = printable_text(object, "metadata.generateName");
    if (std::ranges::find(kNeeded, planned.kind) != kNeeded.end())
      all.needed.push_back(planned.kind + " " + planned.name);
    const std::size_t before = all.pods.size();
    if (planned.kind == "Pod" && has_containers(object)) {
      planned.pod = pod_of(planned, object, object);
      all.pods.push_back(planned);
      // A Pod in the files may come from `kubectl get -o yaml`.
      continue;
    }
    planned.own_annotation = api::annotation(object, api::kPoolAnnotation);
    planned.copies = copies_of(object);
    each_template(object, "", 0, [&](const Object& found, const std::string& path) {
      planned.path = path;
      planned.pod = pod_of(planned, object, found);
      all.pods.push_back(planned);
    });
    // The list names objects whose controller may create pods in a way that check cannot see.
    planned.path = "";
    if (all.pods.size() == before && is_of_somebody_else(object))
      all.without.push_back(planned.title(false));
  }
  return all;
}

}  // namespace larder::kubectl

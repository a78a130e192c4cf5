#include "operator/webhook/inject/cluster_classes.h"

#include <algorithm>

#include "operator/webhook/inject/pod_form.h"

namespace larder::webhook {
namespace {

using api::Object;

// Whether a rule of a node affinity allows a node with one of these values of the label.
bool allows(const Object& rule, const std::string& key, const Object& values) {
  if (api::text_at(rule, "key") != key) return true;
  const std::string how = api::text_at(rule, "operator");
  const Object& listed = api::child(rule, "values");
  const auto is_listed = [&listed](const Object& value) { return lists(listed, value); };
  if (how == "In") return std::ranges::any_of(values, is_listed);
  if (how == "NotIn") return !std::ranges::all_of(values, is_listed);
  return how != "DoesNotExist";
}

// Whether the pod may run on a node with one of these values of the label.
bool may_run_with(const Object& pod, const std::string& key, const Object& values) {
  const Object& own = api::child(api::at(pod, "spec.nodeSelector"), key);
  if (!own.is_null() && !lists(values, own)) return false;
  const Object& required =
      api::at(pod, "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution");
  const Object& terms = api::child(required, "nodeSelectorTerms");
  if (!terms.is_array() || terms.empty()) return true;
  return std::ranges::any_of(terms, [&](const Object& term) {
    const Object& rules = api::child(term, "matchExpressions");
    return !rules.is_array() || std::ranges::all_of(rules, [&](const Object& rule) {
      return allows(rule, key, values);
    });
  });
}

// A node has one of the topologies in full.
bool fits_a_topology(const Object& pod, const Object& storage_class) {
  const Object& topologies = api::child(storage_class, "allowedTopologies");
  if (!topologies.is_array() || topologies.empty()) return true;
  const auto fits = [&pod](const Object& label) {
    const Object& values = api::child(label, "values");
    return !values.is_array() || may_run_with(pod, api::text_at(label, "key"), values);
  };
  return std::ranges::any_of(topologies, [&fits](const Object& topology) {
    const Object& labels = api::child(topology, "matchLabelExpressions");
    return !labels.is_array() || std::ranges::all_of(labels, fits);
  });
}

std::string without_class(const api::DiskSpec& disk, const std::string& pool) {
  if (disk.storage_class.empty())
    return "CachePool " + pool +
           " names no StorageClass, and the cluster has no default one; name " +
           "a class in disk.storageClassName";
  return "the cluster has no StorageClass \"" + disk.storage_class +
         "\", which disk.storageClassName of CachePool " + pool +
         " names; create the class, or name another";
}

std::string without_volume(const Object& storage_class, const Input& input) {
  const std::string name = "StorageClass " + api::name_of(storage_class);
  if (!api::text_at(input.pod, "spec.nodeName").empty() &&
      api::text_at(storage_class, "volumeBindingMode") == "WaitForFirstConsumer")
    return name + " waits for the scheduler (WaitForFirstConsumer), and a pod with spec.nodeName " +
           "passes the scheduler by; use nodeSelector";
  if (!fits_a_topology(input.pod, storage_class))
    return "no entry in allowedTopologies of " + name +
           " fits the nodeSelector and affinity of the pod; name another class in " +
           "disk.storageClassName of CachePool " + input.pool->name;
  return "";
}

}  // namespace

std::string refused_runtime_class(const Object& pod, const Input& input) {
  if (!input.classes.runtime) return "";
  const std::string& name = input.pool->spec.runtime_class;
  if (input.classes.runtime->is_null())
    return "the cluster has no RuntimeClass " + name +
           ", which spec.runtimeClassName of the pool names. Create the class, or name another";
  const Object& wanted = api::at(*input.classes.runtime, "scheduling.nodeSelector");
  if (!wanted.is_object()) return "";
  for (const auto& [key, value] : wanted.items())
    if (!may_run_with(pod, key, Object::array({value})))
      return "the pod's nodeSelector or affinity excludes " + key + " of RuntimeClass " + name +
             ". Write the same in both, or name another class in spec.runtimeClassName";
  return "";
}

std::string refused_storage_class(const Input& input) {
  const std::optional<api::DiskSpec>& disk = input.pool->spec.disk;
  if (!disk || disk->volume != api::DiskVolume::kEphemeralClaim || !input.classes.storage)
    return "";
  const std::string why = input.classes.storage->is_null()
                              ? without_class(*disk, input.pool->name)
                              : without_volume(*input.classes.storage, input);
  return why.empty() ? "" : "the pod would wait for ever for the volume of its disk: " + why;
}

// The older annotation counts in the API server, too.
bool is_default_class(const Object& storage_class) {
  return api::annotation(storage_class, "storageclass.kubernetes.io/is-default-class") == "true" ||
         api::annotation(storage_class, "storageclass.beta.kubernetes.io/is-default-class") ==
             "true";
}

// The API server runs its own plug-ins again behind a webhook that changed the pod. A pod whose
// class comes from its template has the overhead before the webhook.
Object filled_in(Object pod, const Classes& classes) {
  Object& spec = pod["spec"];
  const bool has_class = !api::text_at(spec, "runtimeClassName").empty();
  if (has_class && classes.runtime && api::at(spec, "overhead").empty())
    if (const Object& fixed = api::at(*classes.runtime, "overhead.podFixed"); fixed.is_object())
      spec["overhead"] = fixed;
  if (!classes.storage || !is_default_class(*classes.storage)) return pod;
  if (!spec.contains("volumes") || !spec["volumes"].is_array()) return pod;
  for (Object& volume : spec["volumes"])
    if (api::at(volume, "ephemeral.volumeClaimTemplate.spec").is_object())
      if (Object& claim = volume["ephemeral"]["volumeClaimTemplate"]["spec"];
          api::child(claim, "storageClassName").is_null())
        claim["storageClassName"] = api::name_of(*classes.storage);
  return pod;
}

}  // namespace larder::webhook

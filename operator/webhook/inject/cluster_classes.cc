#include "operator/webhook/inject/cluster_classes.h"

namespace larder::webhook {
namespace {

using api::Object;

}  // namespace

std::string refused_runtime_class(const Object& pod, const Input& input) {
  if (!input.classes.runtime) return "";
  const std::string& name = input.pool->spec.runtime_class;
  if (input.classes.runtime->is_null())
    return "the cluster has no RuntimeClass " + name +
           ", which spec.runtimeClassName of the pool names. Create the class, or name another";
  const Object& wanted = api::at(*input.classes.runtime, "scheduling.nodeSelector");
  if (!wanted.is_object()) return "";
  for (const auto& [key, value] : wanted.items()) {
    const Object& own = api::child(api::at(pod, "spec.nodeSelector"), key);
    if (!own.is_null() && own != value)
      return "the pod's nodeSelector has another " + key + " than RuntimeClass " + name +
             ". Write the same in both, or name another class in spec.runtimeClassName";
  }
  return "";
}

// The API server runs its own plug-ins again behind a webhook that changed the pod. A pod whose
// class comes from its template has the overhead before the webhook.
Object with_overhead(Object pod, const Classes& classes) {
  const bool has_class = !api::text_at(pod, "spec.runtimeClassName").empty();
  if (!has_class || !classes.runtime || !api::at(pod, "spec.overhead").empty()) return pod;
  const Object& fixed = api::at(*classes.runtime, "overhead.podFixed");
  if (fixed.is_object()) pod["spec"]["overhead"] = fixed;
  return pod;
}

}  // namespace larder::webhook

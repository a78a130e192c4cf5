#include "operator/webhook/inject/resource_quota.h"

#include <algorithm>
#include <array>

#include "operator/webhook/inject/cluster_classes.h"
#include "operator/webhook/inject/pod_form.h"
#include "operator/webhook/inject/resource_sums.h"
#include "operator/webhook/inject/service_class.h"

namespace larder::webhook {
namespace {

using api::Object;

constexpr std::uint64_t kOne = 1000;  // in thousandths
constexpr std::string_view kClassSuffix = ".storageclass.storage.k8s.io/";

// The rules of a scope selector, as in Kubernetes' evaluator of pods.
bool matches_priority(const Object& requirement, const Object& pod) {
  const std::string name = api::text_at(pod, "spec.priorityClassName"),
                    how = api::text_at(requirement, "operator");
  if (how == "Exists") return !name.empty();
  if (how == "DoesNotExist") return name.empty();
  const bool listed = lists(api::child(requirement, "values"), name);
  return how == "In" ? listed : how == "NotIn" && !listed;
}

// Whether a term of the pod's affinity looks at pods of other namespaces.
bool has_cross_namespace_affinity(const Object& pod) {
  const auto crosses = [](const Object& term) {
    const Object& names = api::child(term, "namespaces");
    return (names.is_array() && !names.empty()) || !api::child(term, "namespaceSelector").is_null();
  };
  for (const char* kind : {"podAffinity", "podAntiAffinity"}) {
    const Object& affinity = api::child(api::at(pod, "spec.affinity"), kind);
    for (const Object& term :
         api::child(affinity, "requiredDuringSchedulingIgnoredDuringExecution"))
      if (crosses(term)) return true;
    for (const Object& weighted :
         api::child(affinity, "preferredDuringSchedulingIgnoredDuringExecution"))
      if (crosses(api::child(weighted, "podAffinityTerm"))) return true;
  }
  return false;
}

// A quota with an unknown scope does not count.
// A quota that does not count the pod cannot refuse it. For an unknown scope the pod is created,
// and the API server decides.
bool matches_scope(const std::string& scope, const Object& requirement, const Object& pod) {
  const bool ends = api::number_at(pod, "spec.activeDeadlineSeconds", -1) >= 0;
  if (scope == "Terminating") return ends;
  if (scope == "NotTerminating") return !ends;
  if (scope == "BestEffort") return is_best_effort(pod);
  if (scope == "NotBestEffort") return !is_best_effort(pod);
  if (scope == "CrossNamespacePodAffinity") return has_cross_namespace_affinity(pod);
  return scope == "PriorityClass" && matches_priority(requirement, pod);
}

// All scopes must match.
bool matches(const Object& quota, const Object& pod) {
  for (const Object& scope : api::at(quota, "spec.scopes"))
    if (!scope.is_string() ||
        !matches_scope(scope.get<std::string>(), {{"operator", "Exists"}}, pod))
      return false;
  for (const Object& requirement : api::at(quota, "spec.scopeSelector.matchExpressions"))
    if (!matches_scope(api::text_at(requirement, "scopeName"), requirement, pod)) return false;
  return true;
}

// The pod's amount for a quota's name: "limits.cpu", "memory" (requests), "requests.storage",
// "CLASS.storageclass.../...".
// The names are those of `kubectl describe quota`.
Amount usage_of(const Object& pod, std::string name) {
  std::string storage_class;
  if (const std::size_t at = name.find(kClassSuffix); at != std::string::npos) {
    storage_class = name.substr(0, at);
    name = name.substr(at + kClassSuffix.size());
  }
  if (name == "requests.storage") return pod_claims(pod, storage_class).storage;
  if (name == "persistentvolumeclaims" || name == "count/persistentvolumeclaims")
    return pod_claims(pod, storage_class).count * kOne;
  if (name.starts_with("limits."))
    return quota_amount(pod, "limits", name.substr(name.find('.') + 1));
  if (name.starts_with("requests."))
    return quota_amount(pod, "requests", name.substr(name.find('.') + 1));
  return quota_amount(pod, "requests", name);
}

std::string resource_of(const std::string& name) {
  return name.ends_with("cpu") ? "cpu" : name;
}

// A quota for processors or memory refuses a pod with a container that has none.
std::string unspecified(const Object& quota, const Object& pod) {
  constexpr std::array<std::string_view, 6> kWanted{
      "cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"};
  for (const std::string_view name : kWanted) {
    if (api::child(api::at(quota, "spec.hard"), name).is_null()) continue;
    const std::string section = name.starts_with("limits.") ? "limits" : "requests";
    for (const char* list : {"spec.containers", "spec.initContainers"})
      for (const Object& container : api::at(pod, list))
        if (!container_amount(container, section, name.substr(name.find('.') + 1)))
          return std::string(name) + " of container " + api::text_at(container, "name");
  }
  return "";
}

// A quota may count the pod only with the cache: larderd's requests make a BestEffort pod a
// Burstable one.
std::string refused(const Object& quota, const Object& before, const Object& after) {
  if (!matches(quota, after)) return "";
  const bool matched = matches(quota, before);
  if (const std::string lacks = unspecified(quota, after);
      !lacks.empty() && (!matched || unspecified(quota, before).empty()))
    return "ResourceQuota " + api::name_of(quota) + " counts a pod with a cache, and requires " +
           lacks;
  // status.used lags behind pods made a moment ago (F-221).
  const Object &hard = api::at(quota, "status.hard"), &used = api::at(quota, "status.used");
  if (!hard.is_object()) return "";
  for (const auto& [name, quantity] : hard.items()) {
    const Amount most = amount_of(quantity), taken = amount_of(api::child(used, name));
    if (!most || !taken || *taken > *most) continue;
    const std::uint64_t left = *most - *taken, with = usage_of(after, name).value_or(0);
    const std::uint64_t without = matched ? usage_of(before, name).value_or(0) : 0;
    // A pod that would be refused without the cache as well is no affair of Larder's.
    if (with <= left || without > left || with <= without) continue;
    const std::string resource = resource_of(name);
    return "ResourceQuota " + api::name_of(quota) + " has " + amount_text(resource, left) + " of " +
           name + " left, " + "and with a cache the pod requests " + amount_text(resource, with) +
           " instead of " + amount_text(resource, without);
  }
  return "";
}

}  // namespace

// Only cpu limits: larderd always has requests and a memory limit.
void fit_quotas(Object& container, const Object& pod, const Surroundings& surroundings) {
  for (const Surroundings::Kept& quota : surroundings.quotas) {
    const Object& hard = api::at(*quota, "spec.hard");
    if (hard.is_object() && hard.contains("limits.cpu") && matches(*quota, pod))
      limit_cpu(container);
  }
}

std::string refused_by_quota(const Input& input, const Object& after) {
  if (input.surroundings.quotas.empty()) return "";
  const Object without = filled_in(input.pod, input.classes),
               with = filled_in(after, input.classes);
  for (const Surroundings::Kept& quota : input.surroundings.quotas)
    if (std::string why = refused(*quota, without, with); !why.empty()) return why;
  return "";
}

}  // namespace larder::webhook

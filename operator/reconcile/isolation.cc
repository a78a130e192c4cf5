#include "operator/reconcile/isolation.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "operator/api/names.h"
#include "operator/desired/peer_objects.h"
#include "operator/desired/plugin.h"

namespace larder::reconcile {
namespace {

using api::Object;
using desired::Isolation;

// policyTypes is optional; every policy without the list restricts ingress.
bool is_for_ingress(const Object& policy) {
  const Object& types = api::at(policy, "spec.policyTypes");
  return !types.is_array() || types.empty() ||
         std::ranges::find(types, Object("Ingress")) != types.end();
}

bool is_matched(const Object& expression, const Object& labels) {
  const std::string verb = api::text_at(expression, "operator");
  const Object& value = api::child(labels, api::text_at(expression, "key"));
  if (verb == "Exists") return !value.is_null();
  if (verb == "DoesNotExist") return value.is_null();
  const Object& values = api::child(expression, "values");
  const bool listed = std::ranges::find(values, value) != values.end();
  return verb == "In" ? !value.is_null() && listed : verb == "NotIn" && !listed;
}

// The rules of Kubernetes for a LabelSelector: all requirements together. An empty selector selects
// every pod.
bool selects(const Object& selector, const Object& labels) {
  for (const auto& [key, value] : api::child(selector, "matchLabels").items())
    if (api::child(labels, key) != value) return false;
  return std::ranges::all_of(api::child(selector, "matchExpressions"),
                             [&](const Object& one) { return is_matched(one, labels); });
}

bool is_own(const Object& policy, const api::CachePool& pool) {
  const std::string name = api::name_of(policy);
  return name == desired::peers_name(pool) ||
         std::ranges::any_of(api::kPlugins, [&](const api::Plugin& plugin) {
           return plugin.listens() && name == desired::plugin_policy_name(pool, plugin);
         });
}

}  // namespace

Isolation isolation_of(const api::CachePool& pool, const std::vector<k8s::ObjectPtr>& policies,
                       const std::vector<PodView>& pods) {
  std::vector<const Object*> selectors;
  for (const k8s::ObjectPtr& policy : policies)
    if (!is_own(*policy, pool) && is_for_ingress(*policy))
      selectors.push_back(&api::at(*policy, "spec.podSelector"));
  std::size_t serving = 0, selected = 0;
  for (const PodView& pod : pods) {
    if (pod.labels.is_null()) continue;
    ++serving;
    selected +=
        std::ranges::any_of(selectors,
                            [&](const Object* selector) { return selects(*selector, pod.labels); })
            ? 1
            : 0;
  }
  // Before the first pod, only a policy for every pod of the namespace counts.
  if (serving == 0)
    return std::ranges::any_of(selectors, [](const Object* one) { return one->empty(); })
               ? Isolation::kAll
               : Isolation::kNone;
  return selected == 0         ? Isolation::kNone
         : selected == serving ? Isolation::kAll
                               : Isolation::kMixed;
}

// Rules of policies may be long, and a large cluster has thousands of policies.
void trim_policy(Object& policy) {
  if (api::label(policy, api::kManagedByLabel) == std::string(api::kFieldManager)) return;
  Object spec = Object::object();
  for (const char* key : {"podSelector", "policyTypes"})
    if (const Object& value = api::at(policy, std::string("spec.") + key); !value.is_null())
      spec[key] = value;
  policy["spec"] = std::move(spec);
}

}  // namespace larder::reconcile

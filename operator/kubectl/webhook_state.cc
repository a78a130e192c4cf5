#include "operator/kubectl/webhook_state.h"

#include <algorithm>

#include "sidecar/base/text.h"

namespace larder::kubectl {
namespace {

using api::Object;

// The semantics of metav1.LabelSelectorRequirement.
bool holds(const Object& expression, const Object& object) {
  const std::string wanted = api::text_at(expression, "operator");
  const std::optional<std::string> value = api::label(object, api::text_at(expression, "key"));
  const Object& values = api::at(expression, "values");
  const bool among =
      value && values.is_array() && std::ranges::find(values, Object(*value)) != values.end();
  if (wanted == "In") return among;
  if (wanted == "NotIn") return !among;
  if (wanted == "Exists") return value.has_value();
  if (wanted == "DoesNotExist") return !value.has_value();
  return true;  // an operator of a later Kubernetes: no reason to blame the selector
}

}  // namespace

// The rules of the API server for a namespaceSelector: all labels and all expressions must hold.
bool selects(const Object& selector, const Object& object) {
  const Object& labels = api::at(selector, "matchLabels");
  if (labels.is_object())
    for (const auto& [key, value] : labels.items())
      if (const auto has = api::label(object, key); !has || Object(*has) != value) return false;
  const Object& expressions = api::at(selector, "matchExpressions");
  return !expressions.is_array() ||
         std::ranges::all_of(expressions, [&](const Object& one) { return holds(one, object); });
}

WebhookState webhook_seen(const std::vector<Object>& configurations, const Object& space,
                          std::string_view name) {
  // Any configuration may hold the webhook: a user may have copied it from the chart under another
  // name.
  for (const Object& configuration : configurations)
    for (const Object& webhook : api::at(configuration, "webhooks")) {
      if (api::text_at(webhook, "name") != name) continue;
      return {true, api::text_at(configuration, "metadata.creationTimestamp"),
              !api::text_at(webhook, "clientConfig.caBundle").empty(),
              // A namespace that the user may not read counts as selected: no reason to blame the
              // selector.
              space.is_null() || selects(api::at(webhook, "namespaceSelector"), space),
              base::printable(api::text_at(webhook, "clientConfig.service.name")),
              base::printable(api::text_at(webhook, "clientConfig.service.namespace")),
              base::printable(api::text_at(webhook, "clientConfig.url"))};
    }
  return {};
}

ServingState serving_seen(const std::vector<Object>& slices, const Object& service) {
  ServingState seen{0, 0};
  for (const Object& slice : slices) {
    for (const Object& endpoint : api::at(slice, "endpoints"))
      // An absent condition counts as not ready here, unlike in kube-proxy: the advice is only a
      // command to look.
      if (api::truth_at(endpoint, "conditions.ready")) ++seen.ready;
    for (const Object& port : api::at(slice, "ports"))
      if (seen.port == 0) seen.port = static_cast<int>(api::number_at(port, "port"));
  }
  // Slices have no port while no pod exists. A targetPort is a number or the name of a pod's port.
  for (const Object& port : api::at(service, "spec.ports"))
    if (seen.port == 0) seen.port = static_cast<int>(api::number_at(port, "targetPort"));
  return seen;
}

}  // namespace larder::kubectl

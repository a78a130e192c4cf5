#include "sidecar/ctl/kube/webhook_seen.h"

#include <algorithm>

namespace larder::kube {
namespace {

using api::Object;

bool holds(const Object& expression, const Object& object) {
  const std::string wanted = api::text_at(expression, "operator");
  const std::optional<std::string> value = api::label(object, api::text_at(expression, "key"));
  const Object& values = api::at(expression, "values");
  const bool among = value && values.is_array() && std::ranges::find(values, Object(*value)) != values.end();
  if (wanted == "In") return among;
  if (wanted == "NotIn") return !among;
  if (wanted == "Exists") return value.has_value();
  if (wanted == "DoesNotExist") return !value.has_value();
  return true;
}

}  // namespace

bool selects(const Object& selector, const Object& object) {
  const Object& labels = api::at(selector, "matchLabels");
  if (labels.is_object())
    for (const auto& [key, value] : labels.items())
      if (const auto has = api::label(object, key); !has || Object(*has) != value) return false;
  const Object& expressions = api::at(selector, "matchExpressions");
  return !expressions.is_array() || std::ranges::all_of(expressions, [&](const Object& one) { return holds(one, object); });
}

WebhookSeen webhook_seen(const std::vector<Object>& configurations, const Object& space) {
  for (const Object& configuration : configurations)
    for (const Object& webhook : api::at(configuration, "webhooks")) {
      if (api::text_at(webhook, "name") != kWebhookName) continue;
      return {true,
              api::text_at(configuration, "metadata.creationTimestamp"),
              !api::text_at(webhook, "clientConfig.caBundle").empty(),
              space.is_null() || selects(api::at(webhook, "namespaceSelector"), space),
              api::text_at(webhook, "clientConfig.service.name"),
              api::text_at(webhook, "clientConfig.service.namespace")};
    }
  return {};
}

}  // namespace larder::kube

#include "operator/webhook/inject/container_variables.h"

#include <algorithm>

namespace larder::webhook {
namespace {

using api::Object;
using Kind = ContainerVariable::Kind;

// A pod's own resources and most fields (name, IP) are written by Kubernetes and hold no flags.
// Annotations and labels are written by users.
ContainerVariable from_elsewhere(const Object& source) {
  if (!api::at(source, "resourceFieldRef").is_null()) return {};
  const std::string field = api::text_at(source, "fieldRef.fieldPath");
  if (field.starts_with("metadata.annotations") || field.starts_with("metadata.labels"))
    return {Kind::kUnread, "", "the value is in " + field};
  if (!field.empty()) return {};
  const bool secret = !api::at(source, "secretKeyRef").is_null();
  return {Kind::kUnread, "", secret ? "the value is in a Secret" : "the value is in a ConfigMap"};
}

// envFrom may set every variable whose name has the prefix.
// An empty prefix matches every name.
bool may_come_from(const Object& sources, const std::string& name) {
  return sources.is_array() && std::ranges::any_of(sources, [&name](const Object& source) {
           return name.starts_with(api::text_at(source, "prefix"));
         });
}

}  // namespace

// Kubernetes takes the last entry of a name, as here. env wins over envFrom.
ContainerVariable variable_of(const Object& container, const std::string& name) {
  const Object* found = nullptr;
  const Object& environment = api::at(container, "env");
  if (environment.is_array())
    for (const Object& variable : environment)
      if (api::text_at(variable, "name") == name) found = &variable;
  if (found == nullptr) {
    if (may_come_from(api::at(container, "envFrom"), name))
      return {Kind::kUnread, "", "envFrom may set the variable"};
    return {};
  }
  const Object& source = api::at(*found, "valueFrom");
  return source.is_null() ? ContainerVariable{Kind::kText, api::text_at(*found, "value"), ""}
                          : from_elsewhere(source);
}

// The rule of Kubernetes: $(NAME) is replaced in command, args and env; $$ is an escaped $.
std::vector<std::string> kubernetes_names(std::string_view text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at + 1 < text.size(); ++at) {
    if (text[at] != '$') continue;
    const std::size_t end = text.find(')', at);
    if (text[at + 1] == '(' && end != std::string_view::npos)
      names.emplace_back(text.substr(at + 2, end - at - 2));
    if (text[at + 1] == '$') ++at;
  }
  return names;
}

}  // namespace larder::webhook

#include "operator/webhook/inject/container_variables.h"

#include <algorithm>

#include "operator/webhook/inject/config_maps.h"

namespace larder::webhook {
namespace {

using api::Object;
using VariableKind = ContainerVariable::Kind;

// A pod's own resources and most fields (name, IP) are written by Kubernetes and hold no flags.
// Annotations and labels are written by users.
ContainerVariable from_elsewhere(const Object& source) {
  if (!api::at(source, "resourceFieldRef").is_null()) return {};
  const std::string field = api::text_at(source, "fieldRef.fieldPath");
  if (field.starts_with("metadata.annotations") || field.starts_with("metadata.labels"))
    return {VariableKind::kUnread, "", "the value is in " + field};
  if (!field.empty()) return {};
  const bool secret = !api::at(source, "secretKeyRef").is_null();
  return {VariableKind::kUnread, "",
          secret ? "the value is in a Secret" : "the value is in a ConfigMap"};
}

// The value that one entry of envFrom gives a variable. An unread entry may set every variable with
// the entry's prefix; an empty prefix matches every name.
ContainerVariable from_source(const Object& source, const std::string& name) {
  const std::string prefix = api::text_at(source, "prefix");
  if (!name.starts_with(prefix)) return {};
  const Object& data = api::child(source, kRead);
  if (!data.is_object()) return {VariableKind::kUnread, "", "envFrom may set the variable"};
  const Object& value = api::child(data, name.substr(prefix.size()));
  if (!value.is_string()) return {};
  return {VariableKind::kText, value.get_ref<const std::string&>(), ""};
}

// A later entry of envFrom replaces the variables of earlier entries.
ContainerVariable from_sources(const Object& sources, const std::string& name, bool unread_counts) {
  if (!sources.is_array()) return {};
  for (auto source = sources.rbegin(); source != sources.rend(); ++source)
    if (ContainerVariable found = from_source(*source, name);
        found.kind == VariableKind::kText || (found.kind == VariableKind::kUnread && unread_counts))
      return found;
  return {};
}

// Kubernetes takes the last entry of a name, as here. env wins over envFrom.
ContainerVariable found_in(const Object& container, const std::string& name, bool unread_counts) {
  const Object* found = nullptr;
  const Object& environment = api::at(container, "env");
  if (environment.is_array())
    for (const Object& variable : environment)
      if (api::text_at(variable, "name") == name) found = &variable;
  if (found == nullptr) return from_sources(api::at(container, "envFrom"), name, unread_counts);
  const Object& source = api::at(*found, "valueFrom");
  return source.is_null()
             ? ContainerVariable{VariableKind::kText, api::text_at(*found, "value"), ""}
             : from_elsewhere(source);
}

}  // namespace

ContainerVariable variable_of(const Object& container, const std::string& name) {
  return found_in(container, name, true);
}

ContainerVariable readable_variable(const Object& container, const std::string& name) {
  return found_in(container, name, false);
}

bool sets_variable(const Object& container, std::string_view name) {
  for (const Object& variable : api::at(container, "env"))
    if (api::text_at(variable, "name") == name) return true;
  const Object& sources = api::at(container, "envFrom");
  return sources.is_array() && std::ranges::any_of(sources, [name](const Object& source) {
           return from_source(source, std::string(name)).kind == VariableKind::kText;
         });
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

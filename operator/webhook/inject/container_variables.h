// Variables from a container's `env` and `envFrom`, as far as the pod shows their values.
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "operator/api/object.h"

namespace larder::webhook {

struct ContainerVariable {
  enum class Kind {
    kAbsent,  // not in the pod; the image may set it
    kText,    // `text`
    kUnread,  // from another object: `from`
  } kind = Kind::kAbsent;
  std::string text;  // kText: the value; $(NAME) refers to another variable
  std::string from;  // kUnread: the source, to follow "since": "the value is in a ConfigMap"
};

// The last variable of a name counts, as in Kubernetes. Values of a pod's fields or resources are
// harmless and count as kAbsent. A ConfigMap of envFrom that was read (config_maps.h) gives kText.
ContainerVariable variable_of(const api::Object& container, const std::string& name);

// As variable_of(), but an unread entry of envFrom counts as one without the variable.
ContainerVariable readable_variable(const api::Object& container, const std::string& name);

// Whether `env`, or a ConfigMap of envFrom that was read, surely sets the variable.
bool sets_variable(const api::Object& container, std::string_view name);

// The names in $(NAME) of a text, which Kubernetes replaces; $$(NAME) stays.
std::vector<std::string> kubernetes_names(std::string_view text);

}  // namespace larder::webhook

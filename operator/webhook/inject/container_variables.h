// The variables that a container's `env` and `envFrom` give it, as far as a pod says what they are.
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>
#include <vector>

#include "operator/api/object.h"

namespace larder::webhook {

struct ContainerVariable {
  enum class Kind {
    kAbsent,  // the pod says nothing of it: the image's, if any
    kText,    // `text`
    kUnread,  // it comes from elsewhere: `from`
  } kind = Kind::kAbsent;
  std::string text;  // kText: its value; $(NAME) in it stands for another variable
  std::string from;  // kUnread: where from, behind "since": "its value is in a ConfigMap"
};

// The last of that name counts, as in Kubernetes. What a pod's own field or resource gives is
// harmless: kAbsent.
ContainerVariable variable_of(const api::Object& container, const std::string& name);

// NAME of each $(NAME) in a text, which Kubernetes replaces; $$(NAME) stays.
std::vector<std::string> kubernetes_names(std::string_view text);

}  // namespace larder::webhook

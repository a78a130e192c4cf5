// Trial: the API server's result for a pod in a dry run. Webhooks that allow dry runs, quotas,
// limits and policies take part, and no object is created. Thread-safe.
//
// Choice: `check` asks the API server and does not link the injector. The operator in the cluster
// decides, in its own version, and only the API server knows quotas, limits, Pod Security, other
// webhooks and policies. kubectl reads the files, so that YAML has the meaning of `kubectl apply`.
// Price: the check needs the cluster and the permission to create pods, and a webhook with side
// effects refuses dry runs.
#pragma once

#include <string>
#include <vector>

#include "operator/api/object.h"
#include "operator/kubectl/kubectl.h"

namespace larder::kubectl {

struct Trial {
  api::Object pod;                    // the pod that would be stored; null: refused
  std::string refusal;                // the API server's message; empty: accepted, or not asked
  std::vector<std::string> warnings;  // warnings of the API server
  Status asked;                       // an error: the API server was not asked

  bool taken() const { return !pod.is_null(); }
};

// Results in the order of `pods`. The user needs the permission to create pods.
std::vector<Trial> try_pods(const Kubectl& kubectl, const std::vector<api::Object>& pods);

// Parses kubectl's answer to a dry run. Pure.
Trial trial_of(const Kubectl::Heard& heard);

// The objects of files, read by kubectl: lists are split, and each object has a namespace.
// `options`: "--filename=llm.yaml".
struct GivenObjects {
  std::vector<api::Object> objects;
  std::string unread;  // kubectl's message about unreadable parts; empty: all were read
};
Result<GivenObjects> objects_of_files(const Kubectl& kubectl, const Words& options);

}  // namespace larder::kubectl

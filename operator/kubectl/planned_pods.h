// PlannedPod: a pod that the objects of a file would make, to be tried before it is made. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/object.h"

namespace larder::kubectl {

struct PlannedPod {
  std::string kind, ns, name;                 // of the object
  std::string path;                           // of its pod template ("spec.template"); empty: the object is a pod
  std::int64_t copies = 1;                    // of such pods, as the object says
  std::optional<std::string> own_annotation;  // larder.dev/pool on the object itself, where it does nothing
  api::Object pod;                            // without name: the API server generates one

  bool is_pod() const { return path.empty(); }
  // "Deployment models/llm"; of one with several templates the path, too.
  std::string title(bool with_path) const;
};

struct Planned {
  std::vector<PlannedPod> pods;
  std::vector<std::string> without;  // "InferenceService models/llm": a kind of somebody else's, in which no pod template stands
  std::vector<std::string> needed;   // "ServiceAccount llm": what pods name and the same files make
};

// A pod template is found by its form, whatever the kind: a field whose name ends in "template", with spec.containers. What the controller of
// a kind adds and admission looks at is added: volumes of a StatefulSet's claims, labels of KubeRay.
Planned planned_pods(const std::vector<api::Object>& objects);

}  // namespace larder::kubectl

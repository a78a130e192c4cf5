// PlannedPod: a pod that the objects of a file would create, for a trial. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/object.h"

namespace larder::kubectl {

struct PlannedPod {
  std::string kind, ns, name;                 // of the object
  std::string path;                           // of the pod template ("spec.template"); empty: a pod
  std::int64_t copies = 1;                    // number of such pods in the object
  std::optional<std::string> own_annotation;  // larder.dev/pool on the object, without effect
  api::Object pod;                            // without a name: the API server generates one

  bool is_pod() const { return path.empty(); }
  // "Deployment models/llm"; with the path for an object with several templates.
  std::string title(bool with_path) const;
};

struct Planned {
  std::vector<PlannedPod> pods;
  std::vector<std::string> without;  // no pod template found: "InferenceService models/llm"
  std::vector<std::string> needed;   // objects of the files that pods name: "ServiceAccount llm"
};

// A pod template of any kind is a field with spec.containers whose name ends in "template". The
// result includes additions of controllers that affect admission: volumes of a StatefulSet's
// claims, labels of KubeRay.
Planned planned_pods(const std::vector<api::Object>& objects);

}  // namespace larder::kubectl

// BackendFacts: all facts for a backend's status, gathered before the first judgement. Plain
// values; thread-compatible.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/api/cache_backend.h"
#include "operator/desired/backend_objects.h"
#include "operator/k8s/informer.h"
#include "operator/reconcile/backend_check.h"
#include "operator/reconcile/children.h"

namespace larder::reconcile {

// Answers of larderds whose pool uses this backend.
struct SidecarsView {
  std::size_t asked = 0, serving = 0;
  std::string why_not;  // reason of a larderd that does not serve
  // Sorted pods that read from the backend and name a fault, such as refused chunks.
  std::vector<std::string> degraded = {};
  std::string why_degraded = {};  // fault that the first of these pods names
  std::string mode = {};          // as the first larderd that serves tells
};

struct BackendFacts {
  std::int64_t generation = 0;
  Status parsed;                                               // why the spec is unusable
  std::optional<api::CacheBackend> backend;                    // for a usable spec
  Result<desired::ServerIds> ids = desired::ServerIds::kOurs;  // of a managed backend's server
  Brought brought;               // result for the objects of a managed backend
  k8s::ObjectPtr stateful_set;   // of a managed backend; null: not there yet
  bool no_plugin_image = false;  // the operator has no image of the backend's plug-in
  BackendSecrets secrets;
  std::optional<Result<BackendSeen>> seen;  // empty: no check
  SidecarsView sidecars;
};

}  // namespace larder::reconcile

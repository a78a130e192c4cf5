#include "operator/desired/backend_objects.h"
#include "operator/desired/object_head.h"

namespace larder::desired {

// A budget for the server's one pod that allows its eviction: a stricter one would block every
// drain of the node for a cache.
api::Object disruption_budget(const api::CacheBackend& backend) {
  api::Object budget = object_head("policy/v1", "PodDisruptionBudget", backend);
  budget["spec"] = api::Object{{"maxUnavailable", 1},
                               {"unhealthyPodEvictionPolicy", "AlwaysAllow"},
                               {"selector", {{"matchLabels", pod_labels(backend)}}}};
  return budget;
}

}  // namespace larder::desired

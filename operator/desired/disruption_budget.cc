#include "operator/desired/backend_objects.h"
#include "operator/desired/object_head.h"

namespace larder::desired {

// One pod: a budget that kept it would keep its node from ever being drained, for a cache. It says so in the words of those who drain.
api::Object disruption_budget(const api::CacheBackend& backend) {
  api::Object budget = object_head("policy/v1", "PodDisruptionBudget", backend);
  budget["spec"] = api::Object{
      {"maxUnavailable", 1}, {"unhealthyPodEvictionPolicy", "AlwaysAllow"}, {"selector", {{"matchLabels", pod_labels(backend)}}}};
  return budget;
}

}  // namespace larder::desired

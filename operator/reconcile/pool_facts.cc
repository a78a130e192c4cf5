#include "operator/reconcile/pool_facts.h"

#include "operator/desired/larderd.h"

namespace larder::reconcile {

// An unread backend changes no running pod: an update would take the pod's backend away (F-254).
bool is_kept(const PoolFacts& facts, const PodView& pod) {
  return facts.objects_kept || (facts.backend_unread && desired::has_backend(pod.config));
}

bool needs_restart(const PoolFacts& facts, const PodView& pod) {
  if (!facts.pool) return false;  // an unusable spec has no wanted configuration
  // A pod of an engine in placement Node has no larderd of its own, and only the hash of its engine
  // counts.
  if (!pod.has_larderd) return pod.restart_hash != facts.desired_state.engine_hash;
  return !is_kept(facts, pod) && pod.restart_hash != facts.desired_config_of(pod).restart_hash;
}

}  // namespace larder::reconcile

// PoolReconciler: brings one CachePool to the wanted state: its objects, the configuration of its
// running pods, its status.
//
// The order of a reconcile: observe, desired_state_of(), apply_objects, observe_applied, configure,
// status.
// Level-based: reconcile() gets a name and reads everything else. Thread-safe for different names.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "operator/k8s/work_queue.h"
#include "operator/reconcile/context.h"
#include "operator/reconcile/memory_freeing.h"
#include "operator/reconcile/pool_facts.h"
#include "operator/reconcile/pool_status.h"

namespace larder::reconcile {

class PoolReconciler {
 public:
  using Hear = std::function<Heard(const std::vector<PodView>&)>;  // Prober::heard
  // Sums of a pool for metrics; empty: the pool is gone.
  using Report = std::function<void(const k8s::Key&, const std::optional<PoolSums>&, bool ready)>;

  // The most pods that get a configuration in one reconcile; the next reconcile continues.
  static constexpr std::size_t kMostPatches = 200;

  PoolReconciler(const Context& context, Hear hear, Report report, const base::Clock& clock);
  Done reconcile(const k8s::Key& key);

 private:
  struct Pods {
    std::vector<PodView> larderds, engines;  // PoolFacts::pods and engines
  };
  // Only reads. Without a usable spec, only the facts of pods are set.
  PoolFacts observe(const api::Object& object) const;
  // Sets the backend fields of `facts`.
  void observe_backend(PoolFacts& facts) const;
  // With peers: sets how far other NetworkPolicies select the pods.
  void observe_policies(PoolFacts& facts) const;
  // Applies facts.desired_state.objects, unless the objects are kept.
  void apply_objects(PoolFacts& facts) const;
  // Reads the DaemonSet and the huge pages of nodes after apply_objects().
  void observe_applied(PoolFacts& facts) const;
  Pods pods_of(const k8s::Key& key) const;
  // Patches the annotation larder.dev/config of running pods with an equal restart hash, whose
  // larderd takes the change over. Changes nothing else of a pod; other pods count as needing a
  // restart. Returns whether pods remain for the next reconcile.
  bool configure(PoolFacts& facts) const;
  Done end(const k8s::Key& key, const k8s::ObjectPtr& object);

  const Context& context_;
  const Hear hear_;
  const Report report_;
  MemoryFreeing freeing_;
};

}  // namespace larder::reconcile

// PoolReconciler: one CachePool from what is there to what is wanted: its objects, the configuration of its running pods, its status.
//
// Level-based: it is told a name and looks at everything. Thread-safe for different names.
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
  // Sums of a pool, or nothing: it is gone. For metrics.
  using Told = std::function<void(const k8s::Key&, const std::optional<PoolSums>&, bool ready)>;

  // Of one reconcile at most so many pods are given their configuration; the rest in the next one.
  static constexpr std::size_t kMostPatches = 200;

  PoolReconciler(const Context& world, Hear hear, Told told, const base::Clock& clock);
  Done reconcile(const k8s::Key& key);

 private:
  struct Pods {
    std::vector<PodView> larderds, engines;  // PoolFacts::pods and engines
  };
  PoolFacts gather(const api::Object& object);
  // The pool's backend, where it can be read; tells `facts` of it.
  std::optional<api::CacheBackend> backend_of(const api::CachePool& pool, PoolFacts& facts) const;
  Pods pods_of(const k8s::Key& key) const;
  // Those whose larderd takes a change over while it runs. Whether some are left for the next time.
  bool configure(PoolFacts& facts);
  Done end(const k8s::Key& key, const k8s::ObjectPtr& object);

  const Context& world_;
  const Hear hear_;
  const Told told_;
  MemoryFreeing freeing_;
};

}  // namespace larder::reconcile

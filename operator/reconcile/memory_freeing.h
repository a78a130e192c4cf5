// MemoryFreeing: a pool of placement Node that is deleted goes when its nodes' memory is free.
//
// Larderd leaves its memory to the next one, so that a roll, a drain, a kill, an operator that is uninstalled cost no cache; and when its
// pod is told to end it cannot know that there will be no next one. So the pool is held by a finalizer while larderd's successors on all
// nodes free what it left (desired::freeing_objects). They do it also where larderd itself was killed or did not run.
//
// It never holds a pool for long: it lets go at kPatience, where a node is away; at once where nothing can be made any more (a namespace
// that is deleted) or the DaemonSet is not the pool's any more (--cascade=orphan: who keeps it keeps its memory). Then an Event says that
// memory may be left. Level-based but for the time since when; another leader counts anew. Thread-safe for different pools.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "operator/k8s/work_queue.h"
#include "operator/reconcile/context.h"
#include "operator/reconcile/pod_view.h"
#include "sidecar/base/clock.h"

namespace larder::reconcile {

bool has_memory_finalizer(const api::Object& pool);

// How far it is. Pure.
struct Freed {
  std::int64_t nodes = -1;         // that run the pool's pods; -1: not known yet
  std::int64_t freed = 0;          // of them
  std::vector<std::string> waits;  // names of nodes that have a pod of the pool, and have not freed
  bool all() const { return nodes >= 0 && freed >= nodes; }
};
// `daemon_set` as it stands after freeing_objects() were applied; `pods`: those of the pool, without those that are going.
Freed freed_of(const api::Object& daemon_set, const std::vector<PodView>& pods);

class MemoryFreeing {
 public:
  static constexpr std::chrono::milliseconds kPatience{120'000};  // a pod's grace of 30 s, its successor's start, and a pull

  // Both outlive it.
  MemoryFreeing(const Context& world, const base::Clock& clock);

  // Gives a pool of placement Node its finalizer, where it has none. kFailedPrecondition: the pool has changed, look again.
  Status hold(const api::Object& pool);
  // One step for a pool that is being deleted and has the finalizer.
  Done free(const api::Object& pool, const std::vector<PodView>& pods);
  // The pool is gone.
  void forget(const k8s::Key& key);

 private:
  // Takes the finalizer away. `left`: why memory may be left on nodes; empty: there is none.
  Done release(const api::Object& pool, const std::string& left);
  Status set_finalizers(const api::Object& pool, api::Object finalizers);
  std::chrono::milliseconds patience_left(const k8s::Key& key);

  const Context& world_;
  const base::Clock& clock_;
  std::mutex mutex_;
  std::map<k8s::Key, std::uint64_t> began_ms_;  // of pools that are being freed
};

}  // namespace larder::reconcile

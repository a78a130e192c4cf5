// MemoryFreeing: holds a deleted pool of placement Node by a finalizer until its nodes' memory is
// free.
//
// larderd leaves its memory to the next larderd, so that a roll, a drain, a kill or an uninstalled
// operator costs no cache. A terminating larderd cannot know that no successor follows. So a
// successor on every node frees the memory (desired::freeing_objects), also on nodes where larderd
// was killed or did not run.
//
// Choice (2026-11): a freeing pod (`larderd --free-memory`) replaces larderd, and larderd gets no
// configuration that tells it to free at its stop. A changed ConfigMap reaches a pod at some later
// time, and a killed larderd frees no memory. Price: a namespace under deletion starts no pods, so
// its memory stays; docs/guides/upgrade-remove.md describes the manual removal.
//
// The finalizer goes after kPatience, e.g. if a node is away. It goes at once if no pod can be
// created (a namespace under deletion) or the DaemonSet no longer belongs to the pool
// (--cascade=orphan keeps the memory with the DaemonSet). An Event then says that memory may be
// left. Level-based except for the start time, which a new leader counts anew. Thread-safe for
// different pools.
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

// Progress of the freeing pods. Pure.
struct Freed {
  std::int64_t nodes = -1;         // nodes that run the pool's pods; -1: not known yet
  std::int64_t freed = 0;          // nodes with free memory
  std::vector<std::string> waits;  // names of nodes with a pod and memory that is not yet free
  bool all() const { return nodes >= 0 && freed >= nodes; }
};
// `daemon_set`: as observed after the apply of freeing_objects(). `pods`: pods of the pool, without
// terminating ones.
Freed freed_of(const api::Object& daemon_set, const std::vector<PodView>& pods);

class MemoryFreeing {
 public:
  // Grace of 30 s for a pod, start of its successor, and a pull of the image.
  static constexpr std::chrono::milliseconds kPatience{120'000};

  // The arguments outlive the object.
  MemoryFreeing(const Context& context, const base::Clock& clock);

  // Adds the finalizer to a pool of placement Node. Call before the pool has memory.
  // kFailedPrecondition: the pool has changed; read it again.
  Status hold(const api::Object& pool);
  // One step for a deleted pool with the finalizer.
  Done free(const api::Object& pool, const std::vector<PodView>& pods);
  // Call when the pool is gone.
  void forget(const k8s::Key& key);

 private:
  // Removes the finalizer. `left`: why memory may be left on nodes; empty: no memory is left.
  Done release(const api::Object& pool, const std::string& left);
  Status set_finalizers(const api::Object& pool, api::Object finalizers);
  std::chrono::milliseconds patience_left(const k8s::Key& key);

  const Context& context_;
  const base::Clock& clock_;
  std::mutex mutex_;
  std::map<k8s::Key, std::uint64_t> began_ms_;  // start times of running removals
};

}  // namespace larder::reconcile

// PoolFacts: all that a pool's status is judged from, gathered before the first judgement. Plain values, and what is asked of
// them alone; thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/cache_pool.h"
#include "operator/k8s/informer.h"
#include "operator/reconcile/children.h"
#include "operator/reconcile/larderd_answer.h"
#include "operator/reconcile/node_pages.h"
#include "operator/reconcile/pod_view.h"

namespace larder::reconcile {

// What a pod of the pool should have.
struct Wanted {
  std::string config, restart_hash;
};

struct PoolFacts {
  std::int64_t generation = 0;
  Status parsed;                       // why the spec cannot be used
  std::optional<api::CachePool> pool;  // where it can
  k8s::ObjectPtr backend;              // the CacheBackend of spec.backendRef; nothing: there is none
  // It is not there, or cannot be read: what runs with it goes on as it is, since nobody knows what it should be.
  bool backend_unread = false;
  bool objects_kept = false;  // for that reason, ConfigMap and DaemonSet were left as they stand
  Wanted wanted, wanted_on_host_network;
  std::string engine_hash;       // of a pod in `engines`
  std::vector<PodView> pods;     // with a larderd, and not over
  std::vector<PodView> engines;  // injected, without a larderd of their own (placement Node), and not over
  Heard heard;                   // from them
  k8s::ObjectPtr daemon_set;     // placement Node; nothing: not there yet
  Brought brought;               // of its objects
  Status configured;             // whether running pods could be given their configuration
  PagesSeen hugepages_of_nodes;  // where pods wait for some

  const Wanted& wanted_of(const PodView& pod) const { return pod.host_network ? wanted_on_host_network : wanted; }
};

// Whether nobody can tell what the pod should have: it runs with a backend that cannot be read now.
bool is_kept(const PoolFacts& facts, const PodView& pod);
// Whether it runs with what only a restart changes. One of `pods` or of `engines`.
bool needs_restart(const PoolFacts& facts, const PodView& pod);

}  // namespace larder::reconcile

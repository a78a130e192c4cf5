// PoolFacts: all facts for a pool's status, gathered before the first judgement, and questions that
// need only these facts. Plain values; thread-compatible.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/api/cache_pool.h"
#include "operator/k8s/informer.h"
#include "operator/reconcile/children.h"
#include "operator/reconcile/desired_state.h"
#include "operator/reconcile/larderd_answer.h"
#include "operator/reconcile/node_pages.h"
#include "operator/reconcile/peer_certificates.h"
#include "operator/reconcile/pod_view.h"

namespace larder::reconcile {

struct PoolFacts {
  std::int64_t generation = 0;
  Status parsed;                       // why the spec is unusable
  std::optional<api::CachePool> pool;  // for a usable spec
  k8s::ObjectPtr backend;              // the CacheBackend of spec.backendRef; null: missing
  std::optional<api::CacheBackend> parsed_backend;  // `backend` if readable
  // The backend is missing or unreadable. Pods with the backend keep their configuration, since the
  // wanted one is unknown.
  bool backend_unread = false;
  bool objects_kept = false;     // backend_unread: ConfigMap and DaemonSet were not changed
  DesiredState desired_state;    // for a usable spec
  std::vector<PodView> pods;     // with a larderd, and not over
  std::vector<PodView> engines;  // injected pods of placement Node, without a larderd, and not over
  Heard heard;                   // answers of `pods`
  k8s::ObjectPtr daemon_set;     // placement Node; null: not there yet
  Brought brought;               // result for the pool's objects
  Status configured;             // the first failed patch of a running pod
  // With peers: how far other NetworkPolicies select the pods, and the Secret of certificates.
  desired::Isolation isolation = desired::Isolation::kNone;
  PeerSecret peer_secret;
  PagesSeen hugepages_of_nodes;  // read only if pods wait for pages

  const DesiredConfig& desired_config_of(const PodView& pod) const {
    return pod.host_network ? desired_state.of_pod_on_host_network : desired_state.of_pod;
  }
};

// Whether the pod's wanted configuration is unknown: it runs with a backend that is unread now.
bool is_kept(const PoolFacts& facts, const PodView& pod);
// Whether the pod, of `pods` or `engines`, needs a restart for the wanted configuration.
bool needs_restart(const PoolFacts& facts, const PodView& pod);

}  // namespace larder::reconcile

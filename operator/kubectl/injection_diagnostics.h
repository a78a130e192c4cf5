// Why a pod has no cache, from facts alone. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/kubectl/diagnostic.h"
#include "operator/kubectl/pod_state.h"
#include "operator/kubectl/webhook_state.h"
#include "shim/base/status.h"

namespace larder::kubectl {

// The object above a pod's ReplicaSet: a Deployment, StatefulSet, Job.
struct WorkloadState {
  std::string kind, name;                          // empty: none, or unknown
  std::optional<std::string> own_annotation;       // larder.dev/pool on the owner, without effect
  std::optional<std::string> template_annotation;  // larder.dev/pool on the pod template
};

struct InjectionFacts {
  PodState pod;
  std::vector<std::string> pools = {};   // pools of the namespace
  bool pools_known = true;               // CachePools are installed, and the user may list them
  bool installed = true;                 // the cluster has the kind CachePool
  std::vector<std::string> events = {};  // NotInjected events of pod and owner, newest first
  WorkloadState workload = {};
  std::string namespace_pool = {};      // pool of the namespace's label; empty: the pod asks
  WebhookState webhook = {};            // the webhook's entry for such a pod
  Status webhook_known = {};            // why the webhook's configuration is unreadable
  bool planned = false;                 // the pod exists only in a dry run
  ServingState serving = {};            // the webhook's Service
  std::optional<PodState> asking = {};  // dry run with the annotation; empty: not tried
};

// For a pod that is not injected: at least one finding, in order of severity.
Findings why_not_injected(const InjectionFacts& facts);

// "chat, code"; "none".
std::string list_of(const std::vector<std::string>& names);

}  // namespace larder::kubectl

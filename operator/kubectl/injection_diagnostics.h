// Why a pod has no cache: judged from facts alone. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/kubectl/diagnostic.h"
#include "operator/kubectl/pod_state.h"
#include "operator/kubectl/webhook_state.h"
#include "shim/base/status.h"

namespace larder::kubectl {

// What makes the pod, above its ReplicaSet: a Deployment, StatefulSet, Job.
struct WorkloadState {
  std::string kind, name;                          // empty: none, or not known
  std::optional<std::string> own_annotation;       // larder.dev/pool on itself, which does nothing
  std::optional<std::string> template_annotation;  // on its pod template
};

struct InjectionFacts {
  PodState pod;
  std::vector<std::string> pools = {};   // of its namespace
  bool pools_known = true;               // the user may list them, and they are installed
  bool installed = true;                 // the cluster knows CachePools
  std::vector<std::string> events = {};  // what the operator said of it or its owner (NotInjected), the newest first
  WorkloadState workload = {};
  std::string namespace_pool = {};      // label larder.dev/pool of its namespace, where the pod itself asks for none
  WebhookState webhook = {};            // its entry for such a pod
  Status webhook_known = {};            // why the webhook's configuration could not be read
  bool planned = false;                 // it is not made yet: the API server was asked in a dry run
  ServingState serving = {};            // the webhook's Service
  std::optional<PodState> asking = {};  // the same pod with the annotation, as a dry run makes it; nothing: not tried
};

// Of a pod that is not injected; the heaviest first, at least one.
Findings why_not_injected(const InjectionFacts& facts);

// "chat, code"; "none".
std::string list_of(const std::vector<std::string>& names);

}  // namespace larder::kubectl

// PodState: the facts about a pod for `kubectl larder`. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "operator/reconcile/pod_view.h"

namespace larder::kubectl {

struct ContainerState {
  std::string name;
  bool ready = false;
  std::int64_t restarts = 0;
  std::string waiting, waiting_text;  // reason and kubelet's message of a waiting container
  std::string since;                  // start time of a running container, RFC 3339
};

struct PodState {
  reconcile::PodView view;                 // larderd in the pod, if any
  std::string created, node, phase;        // created: RFC 3339
  std::optional<std::string> wanted_pool;  // of the pod, or of the namespace if injected
  bool injected = false;                   // has the injector's parts, or is a pod of the DaemonSet
  std::string injected_by;                 // "0.1.0/chat"
  std::string not_injected;                // the injector's reason
  bool declined = false;                   // annotation larder.dev/inject: "false", which wins
  bool is_static = false;                  // run by the kubelet from a file
  std::string owner_kind, owner_name;      // the controller
  std::vector<ContainerState> containers;  // without Larder's containers

  // Whether a DaemonSet of a Node pool made the pod, which then has no engine.
  bool is_node_larderd() const { return view.has_larderd && !wanted_pool; }
  std::string place() const { return view.ns + "/" + view.name; }
  // kubectl's words that run larderctl with `words` beside the pod's larderd. The words name the
  // pool, which larderctl cannot find out inside the container.
  std::vector<std::string> exec_larderctl(const std::vector<std::string>& words) const;
  // How to ask the pod's larderd if the API server does not reach it.
  std::string ask_by_hand() const;
};

// All texts of the result are printable.
PodState pod_seen(const api::Object& pod);

}  // namespace larder::kubectl

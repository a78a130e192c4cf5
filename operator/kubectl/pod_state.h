// PodState: of a pod, all that `kubectl larder` judges by. Pure; thread-safe.
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
  std::string waiting, waiting_text;  // it does not run: the reason, and the kubelet's words
  std::string since;                  // it runs: RFC 3339
};

struct PodState {
  reconcile::PodView view;                 // larderd in it, if any
  std::string created, node, phase;        // created: RFC 3339
  std::optional<std::string> wanted_pool;  // annotation larder.dev/pool, or the pool of the namespace that was injected
  bool injected = false;                   // it has what the injector adds, or is the DaemonSet's pod
  std::string injected_by;                 // "0.1.0/chat"
  std::string not_injected;                // the injector's reason
  bool declined = false;                   // annotation larder.dev/inject: "false"; then it wants no pool
  bool is_static = false;                  // run by the kubelet from a file
  std::string owner_kind, owner_name;      // its controller
  std::vector<ContainerState> containers;  // but Larder's own

  // It was made by a DaemonSet of a pool of placement Node: no engine in it.
  bool is_node_larderd() const { return view.has_larderd && !wanted_pool; }
  std::string place() const { return view.ns + "/" + view.name; }
  // kubectl's words that run larderctl with these beside its larderd. In the container nothing else tells larderctl the pool.
  std::vector<std::string> exec_larderctl(const std::vector<std::string>& words) const;
  // How to ask its larderd where the API server does not reach it.
  std::string ask_by_hand() const;
};

// Texts in it are printable.
PodState pod_seen(const api::Object& pod);

}  // namespace larder::kubectl

// Whether this Kubernetes runs native sidecars (an init container with restartPolicy Always): on by default from 1.29 on. An older one
// drops that field and waits for larderd's end before it begins the engine: the pod would hang in Init for ever. So nobody guesses.
//
// Asked once, at the start, on purpose: an API server is upgraded before its nodes, and a kubelet of 1.28 refuses native sidecars. Who
// upgrades the cluster restarts the operator when the nodes are through (docs/guides/upgrade-remove.md).
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>

#include "operator/k8s/api_client.h"

namespace larder::app {

// Asks every `pause` until the API server answers; nothing: `stop` came first. A server that answers, but will not tell (no right to, or no
// version of Kubernetes), is taken for a new one, and the log says so. Thread-safe.
std::optional<bool> await_native_sidecars(k8s::ApiClient& client, const std::stop_token& stop,
                                          std::chrono::milliseconds pause = std::chrono::seconds(1));

}  // namespace larder::app

// Whether this Kubernetes runs native sidecars (init containers with restartPolicy Always). Native
// sidecars are on by default from 1.29. An older Kubernetes drops the field and waits for the end
// of larderd before the engine starts, so that the pod would stay in Init for ever.
//
// The operator asks once, at the start. An API server is upgraded before its nodes, and a kubelet
// of 1.28 refuses native sidecars. Restart the operator after the upgrade of the nodes
// (docs/guides/upgrade-remove.md).
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>

#include "operator/k8s/api_client.h"

namespace larder::app {

// Asks every `pause` until the API server answers. Empty: `stop` came first. A server that answers
// without a version (no permission, or no version of Kubernetes) counts as new, with a line in the
// log. Thread-safe.
std::optional<bool> await_native_sidecars(
    k8s::ApiClient& client, const std::stop_token& stop,
    std::chrono::milliseconds pause = std::chrono::seconds(1));

}  // namespace larder::app

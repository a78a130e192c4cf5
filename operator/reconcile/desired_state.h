// The desired state of a pool. Pure: specs in, configurations, hashes and objects out. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/desired/larderd.h"
#include "operator/desired/peer_objects.h"

namespace larder::reconcile {

// The desired configuration of a pod.
struct DesiredConfig {
  std::string config, restart_hash;
};

struct DesiredState {
  DesiredConfig of_pod, of_pod_on_host_network;
  std::string engine_hash;           // of engines without a larderd: placement Node
  std::vector<api::Object> objects;  // of the pool (desired::pool_objects)
};

// `backend`: the pool's backend if readable.
DesiredState desired_state_of(const api::CachePool& pool,
                              const std::optional<api::CacheBackend>& backend,
                              const desired::Defaults& defaults,
                              desired::Isolation isolation = desired::Isolation::kNone);

}  // namespace larder::reconcile

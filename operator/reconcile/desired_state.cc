#include "operator/reconcile/desired_state.h"

#include "operator/desired/pool_objects.h"

namespace larder::reconcile {

DesiredState desired_state_of(const api::CachePool& pool,
                              const std::optional<api::CacheBackend>& backend,
                              const desired::Defaults& defaults, desired::Isolation isolation) {
  // A pod with hostNetwork opens no port, so its configuration differs (desired/larderd.h).
  const desired::EnginePod on_host{.host_network = true};
  return {.of_pod = {desired::larderd_config(pool, backend),
                     desired::restart_hash(pool, backend, defaults)},
          .of_pod_on_host_network = {desired::larderd_config(pool, backend, on_host),
                                     desired::restart_hash(pool, backend, defaults, on_host)},
          .engine_hash = desired::engine_hash(pool, defaults),
          .objects = desired::pool_objects(pool, backend, defaults, isolation)};
}

}  // namespace larder::reconcile

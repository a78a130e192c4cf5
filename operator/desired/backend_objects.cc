#include "operator/desired/backend_objects.h"

namespace larder::desired {

std::vector<api::Object> backend_objects(const api::CacheBackend& backend, const Defaults& defaults,
                                         ServerIds ids) {
  if (!backend.spec.managed) return {};
  return {config_map(backend), stateful_set(backend, defaults, ids), service(backend),
          disruption_budget(backend), network_policy(backend, defaults)};
}

}  // namespace larder::desired

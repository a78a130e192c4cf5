#include "operator/desired/backend_objects.h"

namespace larder::desired {

std::vector<api::Object> backend_objects(const api::CacheBackend& backend, const Defaults& defaults,
                                         ServerIds ids) {
  // An external server has no objects: the operator only checks such a server.
  if (!backend.spec.managed) return {};
  return {config_map(backend), stateful_set(backend, defaults, ids), service(backend),
          disruption_budget(backend), network_policy(backend, defaults)};
}

}  // namespace larder::desired

#include "operator/desired/pool_objects.h"

namespace larder::desired {

std::vector<api::Object> pool_objects(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend,
                                      const Defaults& defaults) {
  if (pool.spec.placement != api::Placement::kNode) return {};
  return {config_map(pool, backend), daemon_set(pool, backend, defaults)};
}

}  // namespace larder::desired

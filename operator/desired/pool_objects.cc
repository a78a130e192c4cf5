#include "operator/desired/pool_objects.h"

namespace larder::desired {

std::vector<api::Object> pool_objects(const api::CachePool& pool,
                                      const std::optional<api::CacheBackend>& backend,
                                      const Defaults& defaults) {
  // Placement Sidecar has no objects: the injector puts everything into the engine's pod.
  if (pool.spec.placement != api::Placement::kNode) return {};
  return {config_map(pool, backend), daemon_set(pool, backend, defaults)};
}

std::vector<api::Object> freeing_objects(api::CachePool pool, const Defaults& defaults) {
  pool.spec.disk.reset();  // freeing needs neither disk nor backend, and either may be missing
  return {config_map(pool, std::nullopt), freeing_daemon_set(pool, defaults)};
}

}  // namespace larder::desired

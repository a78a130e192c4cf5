#include "operator/desired/pool_objects.h"

#include <utility>

namespace larder::desired {

std::vector<api::Object> pool_objects(const api::CachePool& pool,
                                      const std::optional<api::CacheBackend>& backend,
                                      const Defaults& defaults, Isolation isolation) {
  std::vector<api::Object> objects;
  // Placement Sidecar: the injector puts larderd into the engine's pod.
  if (pool.spec.placement == api::Placement::kNode)
    objects = {config_map(pool, backend), daemon_set(pool, backend, defaults)};
  if (!pool.spec.peers) return objects;
  objects.push_back(peers_service(pool));
  if (isolation != Isolation::kMixed) objects.push_back(peers_policy(pool, isolation));
  return objects;
}

std::vector<api::Object> freeing_objects(api::CachePool pool, const Defaults& defaults) {
  // Freeing needs neither disk, backend nor peers, and each may be missing.
  pool.spec.disk.reset();
  pool.spec.peers.reset();
  return {config_map(pool, std::nullopt), freeing_daemon_set(pool, defaults)};
}

}  // namespace larder::desired

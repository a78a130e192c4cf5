#include "operator/desired/pool_objects.h"

#include <utility>

#include "operator/desired/plugin.h"

namespace larder::desired {

std::vector<api::Object> pool_objects(const api::CachePool& pool,
                                      const std::optional<api::CacheBackend>& backend,
                                      const Defaults& defaults, Isolation isolation) {
  std::vector<api::Object> objects;
  // Placement Sidecar: the injector puts larderd into the engine's pod.
  if (pool.spec.placement == api::Placement::kNode)
    objects = {config_map(pool, backend), daemon_set(pool, backend, defaults)};
  if (pool.spec.peers) objects.push_back(peers_service(pool));
  if (isolation == Isolation::kMixed) return objects;
  if (pool.spec.peers) objects.push_back(peers_policy(pool, backend, isolation));
  if (std::optional<api::Object> policy = plugin_policy(pool, backend, isolation))
    objects.push_back(*std::move(policy));
  return objects;
}

std::vector<api::Object> freeing_objects(api::CachePool pool, const Defaults& defaults) {
  // Freeing needs neither disk, backend nor peers, and each may be missing.
  pool.spec.disk.reset();
  pool.spec.peers.reset();
  return {config_map(pool, std::nullopt), freeing_daemon_set(pool, defaults)};
}

}  // namespace larder::desired

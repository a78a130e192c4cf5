#include "operator/desired/larderd.h"
#include "operator/desired/short_hash.h"

namespace larder::desired {

namespace {

// Without what a running larderd takes over from its configuration (sidecar/config/reload.h; a test holds the two equal).
api::CachePool without_live_keys(api::CachePool pool) {
  const api::BackendWriteSpec default_write;
  pool.spec.backend_write.policy = default_write.policy;
  pool.spec.backend_write.rate_bytes = default_write.rate_bytes;
  if (pool.spec.disk) pool.spec.disk->write = api::DiskSpec().write;
  if (pool.spec.disk) pool.spec.disk->admit_after = api::DiskSpec().admit_after;
  return pool;
}

}  // namespace

std::string restart_hash(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend, const Defaults& defaults,
                         const EnginePod& engine) {
  api::Object all = api::Object::array();
  all.push_back(larderd_config(without_live_keys(pool), backend, engine));
  all.push_back(larderd_container(pool, backend, defaults, engine));
  all.push_back(larderd_volumes(pool, backend));
  return short_hash(all.dump());
}

}  // namespace larder::desired

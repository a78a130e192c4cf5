#include "operator/desired/larderd.h"
#include "operator/desired/plugin.h"
#include "operator/desired/short_hash.h"

namespace larder::desired {

namespace {

// The pool without the keys that a running larderd takes over (sidecar/config/reload.h;
// restart_hash_test.cc compares the two lists).
api::CachePool without_live_keys(api::CachePool pool) {
  const api::BackendWriteSpec default_write;
  pool.spec.backend_write.policy = default_write.policy;
  pool.spec.backend_write.rate_bytes = default_write.rate_bytes;
  if (pool.spec.disk) pool.spec.disk->write = api::DiskSpec().write;
  if (pool.spec.disk) pool.spec.disk->admit_after = api::DiskSpec().admit_after;
  return pool;
}

}  // namespace

// The hash covers the whole container, so a new image of the operator restarts pods as well.
std::string restart_hash(const api::CachePool& pool,
                         const std::optional<api::CacheBackend>& backend, const Defaults& defaults,
                         const EnginePod& engine) {
  api::Object all = api::Object::array();
  // Keys that a running larderd takes over are left out of the hash: their change must not restart
  // an engine.
  all.push_back(larderd_config(without_live_keys(pool), backend, engine));
  all.push_back(larderd_container(pool, backend, defaults, engine));
  all.push_back(larderd_volumes(pool, backend));
  if (std::optional<api::Object> plugin = plugin_container(pool, backend, defaults))
    all.push_back(*std::move(plugin));
  // Placement Node: engines run in other pods with their own hash. A change of theirs does not roll
  // larderd.
  if (pool.spec.placement == api::Placement::kSidecar) all.push_back(engine_hash(pool, defaults));
  return short_hash(all.dump());
}

// spec.runtimeClass applies to an engine's pod only in placement Sidecar.
std::string engine_hash(const api::CachePool& pool, const Defaults& defaults) {
  const api::PoolSpec& spec = pool.spec;
  api::Object all = api::Object::array(
      {payload_container(pool, defaults), engine_volumes(pool), engine_mounts(pool),
       engine_pod_security(pool), spec.chunk_tokens, spec.engine.container, spec.engine.flags});
  all.push_back(api::Object::array({static_cast<int>(spec.injection.user_ids),
                                    spec.injection.labels, spec.injection.annotations}));
  if (spec.placement == api::Placement::kSidecar) all.push_back(spec.runtime_class);
  return short_hash(all.dump());
}

}  // namespace larder::desired

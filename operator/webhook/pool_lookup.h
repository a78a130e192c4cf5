// PoolLookup: the pool that a pod names, and the pool's backend, for the webhook. Thread-safe.
#pragma once

#include <string>

#include "operator/api/cache_backend.h"
#include "operator/api/cache_pool.h"
#include "operator/k8s/informer.h"

namespace larder::webhook {

class PoolLookup {
 public:
  virtual ~PoolLookup() = default;
  // kNotFound: there is none. Ends within about a second.
  virtual Result<api::CachePool> pool(const std::string& ns, const std::string& name) = 0;
  virtual Result<api::CacheBackend> backend(const std::string& ns, const std::string& name) = 0;
};

// From what the informers hold; what they do not have (yet) is asked of the API server: pool and pod are often made together.
class CachedPools final : public PoolLookup {
 public:
  // All outlive it. REQUIRES of `live`: its calls end within kLiveDeadlineMs.
  static constexpr unsigned kLiveDeadlineMs = 1000;
  CachedPools(const k8s::Cache& pools, const k8s::Cache& backends, k8s::ApiClient& live)
      : pools_(pools), backends_(backends), live_(live) {}

  Result<api::CachePool> pool(const std::string& ns, const std::string& name) override;
  Result<api::CacheBackend> backend(const std::string& ns, const std::string& name) override;

 private:
  Result<k8s::ObjectPtr> find(const k8s::Cache& cache, const k8s::Resource& resource, const std::string& ns,
                              const std::string& name);

  const k8s::Cache& pools_;
  const k8s::Cache& backends_;
  k8s::ApiClient& live_;
};

}  // namespace larder::webhook

// PoolLookup: the pool that a pod names, the pool's backend, and what of the namespace bears on an injection. Thread-safe.
#pragma once

#include <string>

#include "operator/api/cache_backend.h"
#include "operator/api/cache_pool.h"
#include "operator/k8s/informer.h"
#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

class PoolLookup {
 public:
  virtual ~PoolLookup() = default;
  // kNotFound: there is none. Ends within about a second.
  virtual Result<api::CachePool> pool(const std::string& ns, const std::string& name) = 0;
  virtual Result<api::CacheBackend> backend(const std::string& ns, const std::string& name) = 0;
  // What is not known is left out. `decides`: whether the namespace's label alone may ask for the pod's cache. Ends within about
  // two seconds.
  virtual Surroundings surroundings(const std::string& ns, bool decides) {
    static_cast<void>(ns), static_cast<void>(decides);
    return {};
  }
};

// Cuts from a Namespace, LimitRange or ResourceQuota what no injection reads: for the informers behind NamespaceCaches.
void trim_surroundings(api::Object& object);

// Of namespaces and what limits their pods; null: not followed.
struct NamespaceCaches {
  const k8s::Cache* namespaces = nullptr;
  const k8s::Cache* limit_ranges = nullptr;
  const k8s::Cache* quotas = nullptr;
};

// From what the informers hold; what they do not have (yet) is asked of the API server: pool and pod are often made together.
class CachedPools final : public PoolLookup {
 public:
  // All outlive it. REQUIRES of `live`: its calls end within kLiveDeadlineMs.
  static constexpr unsigned kLiveDeadlineMs = 1000;
  CachedPools(const k8s::Cache& pools, const k8s::Cache& backends, k8s::ApiClient& live, NamespaceCaches namespaces = {})
      : pools_(pools), backends_(backends), live_(live), namespaces_(namespaces) {}

  Result<api::CachePool> pool(const std::string& ns, const std::string& name) override;
  Result<api::CacheBackend> backend(const std::string& ns, const std::string& name) override;
  // Waits for first lists, as long as they can be waited for (Cache::await_settled). The API server is asked only for a namespace
  // that decides and was made a moment ago.
  Surroundings surroundings(const std::string& ns, bool decides) override;

 private:
  void await_first_lists() const;
  Result<k8s::ObjectPtr> find(const k8s::Cache& cache, const k8s::Resource& resource, const std::string& ns,
                              const std::string& name);

  const k8s::Cache& pools_;
  const k8s::Cache& backends_;
  k8s::ApiClient& live_;
  const NamespaceCaches namespaces_;
};

}  // namespace larder::webhook

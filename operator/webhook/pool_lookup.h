// PoolLookup: the pool of a pod, the pool's backend, RuntimeClass and StorageClass, facts of the
// namespace that affect an injection, and ConfigMaps of the pod. Thread-safe.
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
  // kNotFound: no such object. Ends within about a second.
  virtual Result<api::CachePool> pool(const std::string& ns, const std::string& name) = 0;
  virtual Result<api::CacheBackend> backend(const std::string& ns, const std::string& name) = 0;
  // A ConfigMap that containers of a pod name. Ends within about a second.
  virtual Result<api::Object> config_map(const std::string& ns, const std::string& name) {
    static_cast<void>(ns), static_cast<void>(name);
    return Status(Code::kNotFound, "no ConfigMaps are read");
  }
  // Another error than kNotFound: unknown. Ends within about a second.
  virtual Result<api::Object> runtime_class(const std::string& name) {
    static_cast<void>(name);
    return Status(Code::kUnsupported, "no RuntimeClasses are read");
  }
  // An empty name: the default class. Errors as above.
  virtual Result<api::Object> storage_class(const std::string& name) {
    static_cast<void>(name);
    return Status(Code::kUnsupported, "no StorageClasses are read");
  }
  // Unknown facts are absent. `decides`: whether only the namespace's label may request the cache.
  // Ends within about two seconds.
  virtual Surroundings surroundings(const std::string& ns, bool decides) {
    static_cast<void>(ns), static_cast<void>(decides);
    return {};
  }
};

// Removes fields of a Namespace, LimitRange or ResourceQuota that no injection reads; for the
// informers behind NamespaceCaches.
void trim_surroundings(api::Object& object);

// Caches of namespaces and their limits; null: no informer.
struct NamespaceCaches {
  const k8s::Cache* namespaces = nullptr;
  const k8s::Cache* limit_ranges = nullptr;
  const k8s::Cache* quotas = nullptr;
};

// Reads from informers, and asks the API server for a missing pool or backend, since users often
// create pool and pod together.
class CachedPools final : public PoolLookup {
 public:
  // The arguments outlive the object. REQUIRES: calls of `live` end within kLiveDeadlineMs.
  static constexpr unsigned kLiveDeadlineMs = 1000;
  CachedPools(const k8s::Cache& pools, const k8s::Cache& backends, k8s::ApiClient& live,
              NamespaceCaches namespaces = {})
      : pools_(pools), backends_(backends), live_(live), namespaces_(namespaces) {}

  Result<api::CachePool> pool(const std::string& ns, const std::string& name) override;
  Result<api::CacheBackend> backend(const std::string& ns, const std::string& name) override;
  // Asks the API server: the operator keeps no cache of ConfigMaps, which may be many and large.
  Result<api::Object> config_map(const std::string& ns, const std::string& name) override;
  // Both ask the API server: few pods need a class.
  Result<api::Object> runtime_class(const std::string& name) override;
  Result<api::Object> storage_class(const std::string& name) override;
  // Waits for the first lists (Cache::await_settled). Asks the API server only for a new namespace
  // whose label decides.
  Surroundings surroundings(const std::string& ns, bool decides) override;

 private:
  void await_first_lists() const;
  Result<k8s::ObjectPtr> find(const k8s::Cache& cache, const k8s::Resource& resource,
                              const std::string& ns, const std::string& name);

  const k8s::Cache& pools_;
  const k8s::Cache& backends_;
  k8s::ApiClient& live_;
  const NamespaceCaches namespaces_;
};

}  // namespace larder::webhook

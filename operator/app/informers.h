// Informers: the pools and backends that every replica keeps, for its webhook and for when it leads; and, for its webhook, of namespaces what
// bears on an injection. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "operator/k8s/informer.h"
#include "operator/webhook/pool_lookup.h"

namespace larder::app {

class Informers {
 public:
  // What changed, before and after; of resources::kPools or kBackends.
  using OnChange = std::function<void(const k8s::Resource& resource, const k8s::ObjectPtr& before, const k8s::ObjectPtr& after)>;

  // Both outlive it.
  Informers(k8s::ApiClient& client, const base::Clock& clock);

  const k8s::Cache& pools() const { return *pools_; }
  const k8s::Cache& backends() const { return *backends_; }
  // Empty where the operator's role is older than these. The operator then decides without them.
  webhook::NamespaceCaches namespaces() const { return {namespaces_.get(), limit_ranges_.get(), quotas_.get()}; }

  // Who is told from now on; nobody: null. When it returns, the one before is told no more.
  void tell(OnChange on_change);

 private:
  std::unique_ptr<k8s::Informer> watch(k8s::ApiClient& client, const k8s::Resource& resource, const base::Clock& clock);

  std::mutex mutex_;
  OnChange on_change_;
  std::unique_ptr<k8s::Informer> pools_, backends_;
  std::unique_ptr<k8s::Informer> namespaces_, limit_ranges_, quotas_;
};

}  // namespace larder::app

// Informers: the objects that every replica keeps. Webhook and leader read pools and backends. The
// webhook also reads Namespaces, LimitRanges and ResourceQuotas. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "operator/k8s/informer.h"
#include "operator/webhook/pool_lookup.h"

namespace larder::app {

class Informers {
 public:
  // A changed object of resources::kPools or kBackends, before and after the change.
  using OnChange = std::function<void(const k8s::Resource& resource, const k8s::ObjectPtr& before,
                                      const k8s::ObjectPtr& after)>;

  // `client` and `clock` outlive the informers.
  Informers(k8s::ApiClient& client, const base::Clock& clock);

  const k8s::Cache& pools() const { return *pools_; }
  const k8s::Cache& backends() const { return *backends_; }
  // Empty if the operator's role is older than this version and does not allow the lists. The
  // operator then decides without them.
  webhook::NamespaceCaches namespaces() const {
    return {namespaces_.get(), limit_ranges_.get(), quotas_.get()};
  }

  // Sets the listener; null: no listener. After the return, the earlier listener gets no more
  // calls.
  void tell(OnChange on_change);

 private:
  std::unique_ptr<k8s::Informer> watch(k8s::ApiClient& client, const k8s::Resource& resource,
                                       const base::Clock& clock);

  std::mutex mutex_;
  OnChange on_change_;
  std::unique_ptr<k8s::Informer> pools_, backends_;
  std::unique_ptr<k8s::Informer> namespaces_, limit_ranges_, quotas_;
};

}  // namespace larder::app

#include "operator/app/informers.h"

namespace larder::app {
namespace {

// An informer that keeps only the fields for the injector, since other annotations may be long.
// `without`: see Informing.
std::unique_ptr<k8s::Informer> keep(k8s::ApiClient& client, const k8s::Resource& resource,
                                    const base::Clock& clock, const char* without) {
  // These three kinds need a right that an older ClusterRole lacks (F-223). `without` tells the
  // effect in the log.
  k8s::Informing informing;
  informing.resource = resource;
  informing.trim = webhook::trim_surroundings;
  informing.without = without;
  return k8s::Informer::start(client, std::move(informing), clock);
}

}  // namespace

Informers::Informers(k8s::ApiClient& client, const base::Clock& clock)
    : pools_(watch(client, k8s::resources::kPools, clock)),
      backends_(watch(client, k8s::resources::kBackends, clock)),
      namespaces_(
          keep(client, k8s::resources::kNamespaces, clock,
               "each namespace is asked for alone, and user ids of OpenShift may be missing")),
      limit_ranges_(
          keep(client, k8s::resources::kLimitRanges, clock, "pods are fitted without LimitRanges")),
      quotas_(
          keep(client, k8s::resources::kQuotas, clock, "pods are fitted without ResourceQuotas")) {}

std::unique_ptr<k8s::Informer> Informers::watch(k8s::ApiClient& client,
                                                const k8s::Resource& resource,
                                                const base::Clock& clock) {
  k8s::Informing informing;
  informing.resource = resource;
  // The callback runs on the informer's thread. The lock makes tell(nullptr) wait for a callback
  // under way, so a leader's parts can be destroyed afterwards.
  informing.changed = [this, &resource](const k8s::ObjectPtr& before, const k8s::ObjectPtr& after) {
    const std::lock_guard lock(mutex_);
    if (on_change_) on_change_(resource, before, after);
  };
  return k8s::Informer::start(client, std::move(informing), clock);
}

void Informers::tell(OnChange on_change) {
  const std::lock_guard lock(mutex_);
  on_change_ = std::move(on_change);
}

}  // namespace larder::app

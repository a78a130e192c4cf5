#include "operator/app/readiness.h"

#include <utility>

namespace larder::app {
namespace {

using Kind = k8s::HealthChecks::Kind;

Status unless(bool good, const char* why) {
  return good ? Status() : Status(Code::kUnavailable, why);
}

}  // namespace

// A replica that is not ready gets no reviews: the Service sends them to the other replica (F-224).
void add_checks(k8s::HealthChecks& health, const Informers& informers,
                std::function<bool()> certificate) {
  constexpr const char* kNotListed = "not listed yet";
  // Liveness never depends on the API server: a restart would not repair an outage of the API
  // server.
  health.add(Kind::kLive, "ping", [] { return Status(); });
  for (const auto& [name, cache] : {std::pair("cachepools", &informers.pools()),
                                    std::pair("cachebackends", &informers.backends())})
    health.add(Kind::kReady, name, [cache = cache] { return unless(cache->synced(), kNotListed); });
  // An older role may not list these kinds. A refusal settles the cache: reviews then go without.
  const webhook::NamespaceCaches caches = informers.namespaces();
  for (const auto& [name, cache] :
       {std::pair("namespaces", caches.namespaces), std::pair("limitranges", caches.limit_ranges),
        std::pair("resourcequotas", caches.quotas)})
    health.add(Kind::kReady, name,
               [cache = cache] { return unless(cache->await_settled(0), kNotListed); });
  health.add(Kind::kReady, "certificate", [certificate = std::move(certificate)] {
    return unless(certificate(), "there is no certificate to serve yet");
  });
}

}  // namespace larder::app

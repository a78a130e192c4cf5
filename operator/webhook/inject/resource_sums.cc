#include "operator/webhook/inject/resource_sums.h"

#include <algorithm>

#include "operator/desired/quantity.h"

namespace larder::webhook {
namespace {

using api::Object;

constexpr std::uint64_t kThousand = 1000;

const Object& resource_in(const Object& resources, std::string_view section,
                          std::string_view resource) {
  return api::child(api::child(resources, section), resource);  // a resource's name may have dots
}

// A missing request equals the limit: the API server's own default.
Amount amount_in(const Object& resources, std::string_view section, std::string_view resource) {
  const Amount amount = amount_of(resource_in(resources, section, resource));
  return amount || section != "requests" ? amount
                                         : amount_of(resource_in(resources, "limits", resource));
}

void add(Amount& sum, const Amount& more) {
  if (more) sum = sum.value_or(0) + *more;
}

Amount larger(const Amount& one, const Amount& other) {
  return one && other ? Amount(std::max(*one, *other)) : one ? one : other;
}

}  // namespace

Amount amount_of(const Object& quantity) {
  if (!quantity.is_string() && !quantity.is_number()) return std::nullopt;
  const Result<std::uint64_t> milli = api::quantity_milli(
      quantity.is_string() ? quantity.get_ref<const std::string&>() : quantity.dump());
  return milli.ok() ? Amount(*milli) : std::nullopt;
}

std::string amount_text(std::string_view resource, std::uint64_t amount) {
  const std::uint64_t whole = (amount + kThousand - 1) / kThousand;
  if (resource != kCpu) return desired::quantity(whole);
  return amount % kThousand == 0 ? std::to_string(whole) : std::to_string(amount) + "m";
}

Amount container_amount(const Object& container, std::string_view section,
                        std::string_view resource) {
  return amount_in(api::child(container, "resources"), section, resource);
}

// Kubernetes' sum since native sidecars: a sidecar runs beside the containers, and also beside
// every later init container.
Amount pod_amount(const Object& pod, std::string_view section, std::string_view resource) {
  const Object& spec = api::child(pod, "spec");
  Amount running, init, sidecars;
  for (const Object& container : api::child(spec, "containers"))
    add(running, container_amount(container, section, resource));
  for (const Object& container : api::child(spec, "initContainers")) {
    const Amount own = container_amount(container, section, resource);
    Amount phase = sidecars;
    add(phase, own);
    init = larger(init, phase);
    if (api::text_at(container, "restartPolicy") != "Always") continue;
    add(sidecars, own);
    add(running, own);
  }
  Amount total = larger(running, init);
  // spec.resources of the pod (since Kubernetes 1.32) replaces the sum of the containers.
  if (const Amount whole = amount_in(api::child(spec, "resources"), section, resource))
    total = whole;
  return total;
}

Amount quota_amount(const Object& pod, std::string_view section, std::string_view resource) {
  Amount total = pod_amount(pod, section, resource);
  // Kubernetes adds the overhead to every request, and only to a limit that the pod has.
  if (total || section == "requests")
    add(total, amount_of(api::child(api::at(pod, "spec.overhead"), resource)));
  return total;
}

// Ephemeral claims are made for the pod and count in storage quotas. Claims of a StatefulSet exist
// apart from the pod.
Claims pod_claims(const Object& pod, std::string_view storage_class) {
  Claims claims;
  for (const Object& volume : api::at(pod, "spec.volumes")) {
    const Object& claim = api::at(volume, "ephemeral.volumeClaimTemplate.spec");
    if (!claim.is_object()) continue;
    if (!storage_class.empty() && api::text_at(claim, "storageClassName") != storage_class)
      continue;
    claims.storage += amount_of(api::at(claim, "resources.requests.storage")).value_or(0);
    ++claims.count;
  }
  return claims;
}

bool is_best_effort(const Object& pod) {
  for (const std::string_view section : {"requests", "limits"})
    for (const std::string_view resource : {std::string_view("cpu"), std::string_view("memory")})
      if (pod_amount(pod, section, resource).value_or(0) > 0) return false;
  return true;
}

}  // namespace larder::webhook

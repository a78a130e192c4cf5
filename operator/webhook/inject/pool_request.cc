#include "operator/api/names.h"
#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

// The pod's own word comes first: "false" declines the namespace's label, and an annotation names
// another pool.
std::optional<PoolRequest> pool_request_of(const api::Object& pod, const Surroundings::Kept& ns) {
  if (api::annotation(pod, api::kInjectAnnotation) == "false") return std::nullopt;
  if (std::optional<std::string> pool = api::annotation(pod, api::kPoolAnnotation))
    return PoolRequest{*std::move(pool)};
  if (ns == nullptr) return std::nullopt;
  std::optional<std::string> pool = api::label(*ns, api::kPoolLabel);
  if (!pool || pool->empty()) return std::nullopt;
  return PoolRequest{*std::move(pool), false};
}

}  // namespace larder::webhook

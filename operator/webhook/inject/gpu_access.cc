#include "operator/webhook/inject/gpu_access.h"

#include <algorithm>

#include "operator/webhook/inject/cluster_classes.h"

namespace larder::webhook {
namespace {

using api::Object;

// The pod starts in every case: a GPU that larderd does not see costs speed only.
constexpr const char* kMeanwhile =
    "; until then the engine's own process copies, as with transfer: shim";

bool has_claim(const Object& pod, const std::string& name) {
  const Object& claims = api::at(pod, "spec.resourceClaims");
  return claims.is_array() && std::ranges::any_of(claims, [&](const Object& claim) {
           return api::text_at(claim, "name") == name;
         });
}

// Removes claims that the pod lacks from larderd's, and returns them.
// The API server refuses a container with a claim that the pod does not list.
std::string take_out_unknown(const Object& pod, Object& larderd) {
  if (!api::at(larderd, "resources.claims").is_array()) return "";
  Object known = Object::array();
  std::string unknown;
  for (const Object& claim : larderd["resources"]["claims"]) {
    const std::string name = api::text_at(claim, "name");
    if (has_claim(pod, name))
      known.push_back(claim);
    else
      unknown += (unknown.empty() ? "" : ", ") + name;
  }
  if (known.empty())
    larderd["resources"].erase("claims");
  else
    larderd["resources"]["claims"] = std::move(known);
  return unknown;
}

}  // namespace

std::string give_gpu(Object& pod, Object& larderd, const Object& engine, const Input& input) {
  const api::CachePool& pool = *input.pool;
  const bool copies = pool.spec.transfer == api::Transfer::kSidecar;
  const Object& of_engine = api::at(engine, "resources.claims");
  // The engine's claims are shared: larderd opens the same GPUs.
  if (copies && of_engine.is_array() && !of_engine.empty())
    larderd["resources"]["claims"] = of_engine;
  const std::string unknown = take_out_unknown(pod, larderd);
  if (!copies)
    return unknown.empty() ? ""
                           : "CachePool " + pool.name + " names resources.claims " + unknown +
                                 ", which the pod does not have; larderd runs without the claim: "
                                 "remove the claim from the pool";
  Object& spec = pod["spec"];
  const std::string& wanted = pool.spec.runtime_class;
  // The pod's own RuntimeClass stays: another class could break the engine.
  const bool has_own = !api::text_at(spec, "runtimeClassName").empty();
  const std::string refused = has_own ? "" : refused_runtime_class(pod, input);
  if (!wanted.empty() && !has_own && refused.empty()) spec["runtimeClassName"] = wanted;
  const bool by_runtime = !wanted.empty() && api::text_at(spec, "runtimeClassName") == wanted;
  const bool by_claim = !api::at(larderd, "resources.claims").empty();
  if (by_runtime || by_claim) return "";
  const std::string sees_none =
      "larderd sees no GPU for transfer: sidecar of CachePool " + pool.name + ": ";
  if (!refused.empty()) return sees_none + refused + kMeanwhile;
  if (!unknown.empty())
    return sees_none + "the pod has no resource claim " + unknown +
           ", which spec.resources.claims of the pool names. Add the claim to the "
           "pod's spec.resourceClaims, or set spec.runtimeClassName of the pool" +
           kMeanwhile;
  if (!wanted.empty())
    return sees_none + "the pod's runtimeClassName is " + api::text_at(spec, "runtimeClassName") +
           " and the pool's " + wanted + ". Write the same in both" + kMeanwhile;
  return sees_none +
         "set spec.runtimeClassName of the pool (nvidia, say), or give the engine's container a "
         "resource claim" +
         kMeanwhile;
}

}  // namespace larder::webhook

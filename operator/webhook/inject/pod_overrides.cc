#include "operator/webhook/inject/pod_overrides.h"

#include <array>
#include <string>
#include <string_view>

#include "operator/api/names.h"
#include "operator/webhook/inject/pod_form.h"

namespace larder::webhook {
namespace {

using api::Object;

constexpr std::array<std::string_view, 2> kSections{"requests", "limits"};
constexpr std::array<std::string_view, 3> kResources{"cpu", "memory", "ephemeral-storage"};
constexpr const char* kPayloadPrefix = "payload.";

// larder.dev/limits.memory and larder.dev/payload.limits.memory.
std::string key_of(const std::string& path) {
  return std::string(api::kGroup) + "/" + path;
}

// The annotations PREFIXsection.resource of a pod, written over `resources`.
// The first path that has one; empty: none.
std::string apply_annotations(Object& resources, const Object& pod, const std::string& prefix) {
  std::string first;
  for (const std::string_view section : kSections)
    for (const std::string_view resource : kResources) {
      const std::string path = std::string(section) + "." + std::string(resource);
      const std::optional<std::string> amount = api::annotation(pod, key_of(prefix + path));
      if (!amount) continue;
      if (first.empty()) first = path;
      if (!resources.is_object()) resources = Object::object();
      // The annotation is a text, as quantities are; its check follows on the whole pool.
      map_in(resources, section.data())[std::string(resource)] = *amount;
    }
  return first;
}

// Names the annotation that is wrong, or the first one where the pool's own value no longer fits.
Status refusal(const Object& pod, const std::string& prefix, const std::string& first,
               const api::WrongResource& wrong) {
  const std::string own = key_of(prefix + wrong.path),
                    key = api::annotation(pod, own) ? own : key_of(prefix + first);
  const std::string container(prefix.empty() ? "larderd" : api::kPayloadContainer);
  return {Code::kUnsupported, "the pod's annotation " + key + " gives " + container +
                                  " impossible resources: " + wrong.path + ": " + wrong.why +
                                  "; correct or remove the annotation"};
}

}  // namespace

// The pool's rules apply to the result: a request of the pod may exceed the pool's limit.
Result<api::CachePool> with_overrides(const Object& pod, api::CachePool pool) {
  if (const std::string first = apply_annotations(pool.spec.resources, pod, ""); !first.empty())
    if (const std::optional<api::WrongResource> wrong = api::wrong_resources(pool.spec))
      return refusal(pod, "", first, *wrong);
  if (const std::string first =
          apply_annotations(pool.spec.injection.payload_resources, pod, kPayloadPrefix);
      !first.empty())
    if (const std::optional<api::WrongResource> wrong = api::wrong_payload(pool.spec.injection))
      return refusal(pod, kPayloadPrefix, first, *wrong);
  return pool;
}

}  // namespace larder::webhook

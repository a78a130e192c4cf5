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

std::string key_of(const std::string& path) {
  return std::string(api::kGroup) + "/" + path;
}

}  // namespace

Result<api::CachePool> with_overrides(const Object& pod, api::CachePool pool) {
  std::string first;
  for (const std::string_view section : kSections)
    for (const std::string_view resource : kResources) {
      const std::string path = std::string(section) + "." + std::string(resource);
      const std::optional<std::string> amount = api::annotation(pod, key_of(path));
      if (!amount) continue;
      if (first.empty()) first = path;
      Object& resources = pool.spec.resources;
      if (!resources.is_object()) resources = Object::object();
      map_in(resources, section.data())[std::string(resource)] = *amount;
    }
  if (first.empty()) return pool;
  const std::optional<api::WrongResource> wrong = api::wrong_resources(pool.spec);
  if (!wrong) return pool;
  const std::string key = api::annotation(pod, key_of(wrong->path)) ? key_of(wrong->path) : key_of(first);
  return Status(Code::kUnsupported, "its annotation " + key + " gives larderd resources that it cannot have: " + wrong->path +
                                        ": " + wrong->why + "; mend the annotation, or remove it");
}

}  // namespace larder::webhook

#include "operator/webhook/inject/config_maps.h"

#include <map>

namespace larder::webhook {
namespace {

using api::Object;

constexpr std::size_t kMostMaps = 8;           // of a pod
constexpr std::size_t kMostData = 256u << 10;  // bytes of one ConfigMap's values

// The texts of a ConfigMap; null: unread, too large, or of another form.
Object data_of(const Object& map) {
  if (!map.is_object()) return {};
  const Object& data = api::child(map, "data");
  if (data.is_null()) return Object::object();
  if (!data.is_object()) return {};
  std::size_t bytes = 0;
  for (const auto& [key, value] : data.items()) {
    if (!value.is_string()) return {};
    bytes += key.size() + value.get_ref<const std::string&>().size();
  }
  return bytes <= kMostData ? data : Object();
}

}  // namespace

// The field of a review's own pod is removed first: only data that the operator has read counts.
Object with_config_maps(Object pod, const ReadConfigMap& read) {
  std::map<std::string, Object> known;
  if (!pod.is_object() || !api::at(pod, "spec.containers").is_array()) return pod;
  for (Object& container : pod["spec"]["containers"]) {
    if (!api::at(container, "envFrom").is_array()) continue;
    for (Object& source : container["envFrom"]) {
      if (!source.is_object()) continue;
      source.erase(kRead);
      const std::string name = api::text_at(source, "configMapRef.name");
      if (name.empty() || (known.size() >= kMostMaps && !known.contains(name))) continue;
      const auto [at, is_new] = known.try_emplace(name);
      if (is_new) at->second = data_of(read(name));
      if (!at->second.is_null()) source[kRead] = at->second;
    }
  }
  return pod;
}

}  // namespace larder::webhook

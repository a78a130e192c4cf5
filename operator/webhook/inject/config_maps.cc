#include "operator/webhook/inject/config_maps.h"

#include <map>

namespace larder::webhook {
namespace {

using api::Object;

constexpr std::size_t kMostMaps = 8;           // of a pod
constexpr std::size_t kMostData = 256u << 10;  // bytes in all entries of a pod
constexpr std::size_t kValueBytes = 64;        // of a value beside its key and text

struct Known {
  Object data;  // null: unread, too large, or of another form
  std::size_t bytes = 0;
};

Known known_of(const Object& map) {
  if (!map.is_object()) return {};
  const Object& data = api::child(map, "data");
  if (data.is_null()) return {Object::object()};
  if (!data.is_object()) return {};
  std::size_t bytes = 0;
  for (const auto& [key, value] : data.items()) {
    if (!value.is_string()) return {};
    bytes += key.size() + value.get_ref<const std::string&>().size() + kValueBytes;
  }
  return bytes <= kMostData ? Known{data, bytes} : Known();
}

}  // namespace

// The field of a review's own pod is removed first: only data that the operator has read counts.
// The injector copies the pod several times, so the data of all entries has one bound.
Object with_config_maps(Object pod, const ReadConfigMap& read) {
  std::map<std::string, Known> known;
  std::size_t bytes = 0;
  if (!pod.is_object() || !api::at(pod, "spec.containers").is_array()) return pod;
  for (Object& container : pod["spec"]["containers"]) {
    if (!api::at(container, "envFrom").is_array()) continue;
    for (Object& source : container["envFrom"]) {
      if (!source.is_object()) continue;
      source.erase(kRead);
      const std::string name = api::text_at(source, "configMapRef.name");
      if (name.empty() || (known.size() >= kMostMaps && !known.contains(name))) continue;
      const auto [at, is_new] = known.try_emplace(name);
      if (is_new) at->second = known_of(read(name));
      if (at->second.data.is_null() || bytes + at->second.bytes > kMostData) continue;
      bytes += at->second.bytes;
      source[kRead] = at->second.data;
    }
  }
  return pod;
}

}  // namespace larder::webhook

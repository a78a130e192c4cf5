// ConfigMaps: larderd's configuration in placement Node, and a managed server's.
#include "operator/desired/backend_objects.h"
#include "operator/desired/object_head.h"
#include "operator/desired/paths.h"
#include "operator/desired/pool_objects.h"

namespace larder::desired {
namespace {

using api::Object;

Object of_one_file(Object head, std::string_view file, std::string text) {
  head["data"] = Object{{std::string(file), std::move(text)}};
  return head;
}

}  // namespace

Object config_map(const api::CachePool& pool, const std::optional<api::CacheBackend>& backend) {
  return of_one_file(object_head("v1", "ConfigMap", pool), kConfigFile,
                     larderd_config(pool, backend));
}

Object config_map(const api::CacheBackend& backend) {
  Object map =
      of_one_file(object_head("v1", "ConfigMap", backend), kServerFile, server_config(backend));
  map["metadata"]["name"] = server_config_name(backend);
  return map;
}

// Differs from names of pools' ConfigMaps, which all begin with "larder-".
std::string server_config_name(const api::CacheBackend& backend) {
  return "larder." + backend.name;
}

}  // namespace larder::desired

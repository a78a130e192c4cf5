#include <array>
#include <cctype>

#include "operator/api/cache_backend.h"

namespace larder::api {
namespace {

// The user of a URL. Bytes other than letters, digits and "-_.~" become "%40" and the like.
// An ACL user of Redis may contain "@" or ":". Such a byte would move the border between user and
// host in larderd's parser.
std::string encoded(std::string_view user) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text;
  for (const char c : user) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '~')
      text += c;
    else
      (text += '%').append({kDigits[byte >> 4], kDigits[byte & 15]});
  }
  return text;
}

}  // namespace

std::string url_of(const CacheBackend& backend) {
  // The order is that of BackendMode. larderd takes the schemes redis, redis-sentinel and
  // redis-cluster, and rediss for TLS.
  constexpr std::array<std::string_view, 3> kSuffixes{"", "-sentinel", "-cluster"};
  const BackendSpec& spec = backend.spec;
  if (const Plugin* plugin = plugin_of(spec.type))
    return std::string(plugin->scheme) + "://" + spec.endpoints.front();
  // A managed server is reached by its Service. It has one server and database 0, so the other
  // fields of the spec stay unused.
  if (spec.managed) return "redis://" + managed_host(backend) + ":" + std::to_string(kServerPort);
  std::string url = spec.tls.enabled ? "rediss" : "redis";
  url += std::string(kSuffixes[static_cast<std::size_t>(spec.mode)]) + "://";
  if (!spec.user.empty()) url += encoded(spec.user) + "@";
  // Several endpoints are joined by commas, for example redis-cluster://a:6379,b:6379. A Sentinel
  // URL names the master as the path, e.g. redis-sentinel://s1:26379/mymaster/2.
  for (std::size_t i = 0; i < spec.endpoints.size(); ++i)
    url += (i == 0 ? "" : ",") + spec.endpoints[i];
  if (spec.mode == BackendMode::kSentinel) url += "/" + spec.master;
  if (spec.database != 0) url += "/" + std::to_string(spec.database);
  return url;
}

// The prefix keeps the objects of a backend apart from other objects of the namespace that have the
// name of the backend.
std::string managed_name(const CacheBackend& backend) {
  return "larder-" + backend.name;
}

std::string managed_host(const CacheBackend& backend) {
  return managed_name(backend) + "." + backend.ns + ".svc";
}

}  // namespace larder::api

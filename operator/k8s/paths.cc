#include "operator/k8s/paths.h"

#include <cstdint>

namespace larder::k8s {

// Everything outside the unreserved characters of RFC 3986 is escaped: a name from an annotation
// cannot add a path segment or a query.
std::string escaped(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string path;
  for (const char c : text) {
    const auto byte = static_cast<std::uint8_t>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-_.~").find(c) != std::string_view::npos;
    if (plain)
      path += c;
    else
      (path += '%') += {kHex[byte >> 4], kHex[byte & 15]};
  }
  return path;
}

std::string api_version(const Resource& resource) {
  return resource.group.empty() ? resource.version : resource.group + "/" + resource.version;
}

std::string path_of(const Resource& resource, const std::string& ns, const std::string& name,
                    const std::string& subresource) {
  // The core group has no name and its own root: /api/v1/pods, but /apis/apps/v1/daemonsets.
  std::string path = (resource.group.empty() ? "/api/" : "/apis/") + api_version(resource);
  if (resource.namespaced && !ns.empty()) path += "/namespaces/" + escaped(ns);
  path += "/" + resource.plural;
  if (!name.empty()) path += "/" + escaped(name);
  if (!subresource.empty()) path += "/" + subresource;
  return path;
}

std::string query_of(const Query& query) {
  std::string text;
  // Callers pass optional parameters (labels, continue) without a test of their own.
  for (const auto& [key, value] : query)
    if (!value.empty()) text += (text.empty() ? "?" : "&") + key + "=" + escaped(value);
  return text;
}

Query query_of(const Selector& selector) {
  return {{"labelSelector", selector.labels}, {"fieldSelector", selector.fields}};
}

}  // namespace larder::k8s

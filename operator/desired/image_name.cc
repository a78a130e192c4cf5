#include "operator/desired/image_name.h"

namespace larder::desired {
namespace {

// The end of the host. As in Docker and containerd, a host has a dot or a port, or is localhost.
// Npos: no host.
// As in Docker: "valkey/valkey" has no host, "registry:5000/valkey" and "localhost/valkey" have
// one.
std::size_t end_of_host(std::string_view image) {
  const std::size_t slash = image.find('/');
  if (slash == std::string_view::npos) return slash;
  const std::string_view first = image.substr(0, slash);
  return first == "localhost" || first.find_first_of(".:") != std::string_view::npos
             ? slash
             : std::string_view::npos;
}

}  // namespace

std::string in_registry(std::string_view image, const std::string& registry, Named named) {
  const std::size_t host = end_of_host(image);
  const bool has_host = host != std::string_view::npos;
  if (registry.empty() || (has_host && named == Named::kByUser)) return std::string(image);
  return registry + "/" + std::string(has_host ? image.substr(host + 1) : image);
}

}  // namespace larder::desired

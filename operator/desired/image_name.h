// Names of images: "HOST[:PORT]/PATH:TAG". Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace larder::desired {

enum class Named {
  kByUs,    // a default of the operator
  kByUser,  // in a pool or backend: a host that stands there is meant
};

// `image` in the registry that the chart's global.imageRegistry names ("mirror.example:5000/team"). Replaces the host of a name of
// ours; a user's name gets the registry where it has no host. `registry` empty: `image` as it is.
std::string in_registry(std::string_view image, const std::string& registry, Named named);

}  // namespace larder::desired

// Names of images: "HOST[:PORT]/PATH:TAG". Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace larder::desired {

enum class Named {
  kByUs,    // a default of the operator
  kByUser,  // in a pool or backend: a given host is intended
};

// `image` in the registry of the chart's global.imageRegistry ("mirror.example:5000/team").
// Replaces the host of a default image. An image of the user gets the registry only if it has no
// host. Empty `registry`: no change.
std::string in_registry(std::string_view image, const std::string& registry, Named named);

}  // namespace larder::desired

// Text of an object for the terminal. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "operator/api/object.h"
#include "sidecar/base/text.h"

namespace larder::kubectl {

// Invariant: text of pods, users and larderd is made printable before the terminal gets it.
inline std::string printable_text(const api::Object& object, std::string_view path) {
  return base::printable(api::text_at(object, path));
}

}  // namespace larder::kubectl

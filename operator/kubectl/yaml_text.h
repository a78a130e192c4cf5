// An object as YAML in kubectl's order and form: sorted keys, lists at the column of their key,
// texts of several lines as blocks. Terminal control characters are escaped. Pure; thread-safe.
#pragma once

#include <string>

#include "operator/api/object.h"

namespace larder::kubectl {

// A complete document with a final newline.
std::string yaml_text(const api::Object& object);

}  // namespace larder::kubectl

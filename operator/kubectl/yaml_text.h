// An object as YAML, in the order and form of kubectl: keys by name, lists at their key's column, texts of several lines as blocks. What a
// terminal would obey is written as an escape. Pure; thread-safe.
#pragma once

#include <string>

#include "operator/api/object.h"

namespace larder::kubectl {

// A whole document, with a line's end.
std::string yaml_text(const api::Object& object);

}  // namespace larder::kubectl

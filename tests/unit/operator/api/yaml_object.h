// Kubernetes objects as YAML, in the form of users and golden files. Throws yaml-cpp's exceptions:
// for tests alone.
#pragma once

#include <string>
#include <vector>

#include "operator/api/object.h"

namespace larder::test {

// The documents of a text. Plain scalars are typed as Kubernetes types them, quoted ones are
// strings.
std::vector<api::Object> from_yaml(const std::string& text);

// Keys in order, scripts as blocks. from_yaml() gives the same object again. `columns`, for tables:
// a list or a map that fits into the rest of a line stands there, `{a: 1, b: [c, d]}`; 0: each has
// lines of its own. `indent`: spaces in front of each line.
std::string to_yaml(const api::Object& object, std::size_t columns = 0, std::size_t indent = 0);

}  // namespace larder::test

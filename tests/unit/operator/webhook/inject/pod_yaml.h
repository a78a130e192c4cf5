// Pods as YAML, as they are written and read in golden files. Throws what yaml-cpp throws: for tests alone.
#pragma once

#include <string>
#include <vector>

#include "operator/api/object.h"

namespace larder::test {

// The documents of a text. Plain scalars are typed as Kubernetes types them, quoted ones are strings.
std::vector<api::Object> from_yaml(const std::string& text);

// Keys in order, scripts as blocks. from_yaml() gives the same object again.
std::string to_yaml(const api::Object& object);

}  // namespace larder::test

// YAML as an object, for kubeconfig files.
#pragma once

#include <string>

#include "operator/api/object.h"

namespace larder::k8s {

// Parses one document of maps, lists and scalars. Unquoted true, false, null and whole numbers
// become the JSON values; other scalars become texts. kInvalidArgument with the line: anchors,
// aliases, duplicate keys, more than api::kMostDepth levels, or no YAML. Thread-safe.
Result<api::Object> parse_yaml(const std::string& text);

}  // namespace larder::k8s

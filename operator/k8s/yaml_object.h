// YAML as an object: the only place of the operator that knows yaml-cpp. For kubeconfig files, which are YAML.
#pragma once

#include <string>

#include "operator/api/object.h"

namespace larder::k8s {

// One document of maps, lists and scalars. Plain true, false, null and whole numbers are what they are in JSON, everything else is a
// text. kInvalidArgument with the line for anchors, aliases, duplicate keys, more than api::kMostDepth levels, no YAML. Thread-safe.
Result<api::Object> parse_yaml(const std::string& text);

}  // namespace larder::k8s

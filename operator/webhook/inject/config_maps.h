// The ConfigMaps that a pod's containers name in `envFrom`, read before the injection.
//
// Pure, but for the given function; thread-compatible; never throws.
#pragma once

#include <functional>
#include <string>

#include "operator/api/object.h"

namespace larder::webhook {

// The field of an envFrom entry with the data of the entry's ConfigMap. Kubernetes has no such
// field. An entry without the field is unread: a Secret, or a ConfigMap that could not be read.
inline constexpr const char* kRead = "data";

// Returns the ConfigMap of the pod's namespace, or null for one that could not be read.
using ReadConfigMap = std::function<api::Object(const std::string& name)>;

// The pod with the data of each readable ConfigMap in its envFrom entry. The injector then knows
// these variables. The patch of inject() never holds the data, because the pod has the data before
// and after the injection. Reads at most 8 ConfigMaps, each once. All entries together get at most
// 256 KiB, and entries beyond that stay unread. Any JSON may come as `pod`.
api::Object with_config_maps(api::Object pod, const ReadConfigMap& read);

}  // namespace larder::webhook

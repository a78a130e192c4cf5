// RuntimeClass and StorageClass of a pod with a cache: whether the cluster runs the pod with these
// classes, and the fields that follow from the classes.
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>

#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

// Why the pod would not run with the pool's RuntimeClass; "": the pod may have the class. The API
// server refuses an absent class and another node selector. REQUIRES: the pod has no class.
std::string refused_runtime_class(const api::Object& pod, const Input& input);

// Why the pod would wait for ever for the volume of the pool's disk, with the remedy; "": a volume
// may come.
std::string refused_storage_class(const Input& input);

// Whether claims without a class get this StorageClass. Of several such classes the newest counts.
bool is_default_class(const api::Object& storage_class);

// The pod as quotas count it. The API server fills in the overhead of the pod's RuntimeClass and
// the default StorageClass of ephemeral claims after the webhook.
api::Object filled_in(api::Object pod, const Classes& classes);

}  // namespace larder::webhook

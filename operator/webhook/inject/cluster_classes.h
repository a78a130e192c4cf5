// RuntimeClass and StorageClass of an injected pod: whether the cluster accepts the pod with them,
// and the fields of a pod that follow from them.
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>

#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

// Why the API server would refuse the pod with the pool's RuntimeClass, by the rules of its
// admission plug-in RuntimeClass; "": the pod may have the class. REQUIRES: the pod has no class.
std::string refused_runtime_class(const api::Object& pod, const Input& input);

// The pod with the overhead of its RuntimeClass, which the API server fills in after the webhook.
api::Object with_overhead(api::Object pod, const Classes& classes);

}  // namespace larder::webhook

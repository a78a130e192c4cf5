// Access of larderd to the engine's GPU for transfer: sidecar, by the pod's resource claims or by a
// RuntimeClass. Pure; thread-safe.
#pragma once

#include <string>

#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

// Makes a GPU visible in the container `larderd`; `engine` is the engine's container. Leaves out
// claims and a RuntimeClass with which the API server would refuse the pod. Returns one sentence
// about a missing part and the remedy, or an empty text.
std::string give_gpu(api::Object& pod, api::Object& larderd, const api::Object& engine,
                     const Input& input);

}  // namespace larder::webhook

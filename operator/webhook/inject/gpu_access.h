// Where larderd copies itself (transfer: sidecar) it must see the engine's GPU: by the pod's resource claims, or by a RuntimeClass.
// Pure; thread-safe.
#pragma once

#include <string>

#include "operator/webhook/inject/inject.h"

namespace larder::webhook {

// Gives `larderd`, whose pod has `engine` as the engine's container, what makes a GPU visible in it. Claims that the pod does not have
// are taken out of it: with them the API server would refuse the pod. What then lacks and what to write, one sentence; else empty.
std::string give_gpu(api::Object& pod, api::Object& larderd, const api::Object& engine, const api::CachePool& pool);

}  // namespace larder::webhook

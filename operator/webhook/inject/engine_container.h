// Which containers of a pod are engines.
//
// Pure; thread-safe; never throws.
#pragma once

#include <vector>

#include "operator/api/cache_pool.h"
#include "operator/webhook/inject/command_shape.h"

namespace larder::webhook {

struct EngineContainer {
  std::size_t index = 0;  // in spec.containers
  CommandShape shape;
};

// The one that the pool names; else all that start vLLM. At least one; kUnsupported: one sentence, why none and what to do.
Result<std::vector<EngineContainer>> find_engines(const api::Object& pod, const api::EngineSpec& spec);

}  // namespace larder::webhook

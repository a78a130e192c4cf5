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

// The container that the pool names, or else all containers that start vLLM. At least one.
// kUnsupported: one sentence with reason and remedy.
Result<std::vector<EngineContainer>> find_engines(const api::Object& pod,
                                                  const api::EngineSpec& spec);

}  // namespace larder::webhook

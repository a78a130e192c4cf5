// Adds the flag that gives vLLM its connector to a container, or puts Larder beside the connector that it has.
//
// Pure; thread-safe; never throws.
#pragma once

#include "operator/api/object.h"
#include "operator/webhook/inject/command_shape.h"
#include "shim/base/status.h"

namespace larder::webhook {

// REQUIRES: shape_of(container) is `shape`, kArgv, kScript or kEntrypoint. kUnsupported: why not and what to do, a sentence that
// begins with "its" or "it"; the container is then as it was or changed in part.
Status add_connector_flag(api::Object& container, const CommandShape& shape, int chunk_tokens);

// Whether such a container starts vLLM: for a script, that an engine is found in it.
bool starts_engine(const api::Object& container, const CommandShape& shape);

}  // namespace larder::webhook

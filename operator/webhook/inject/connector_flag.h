// Adds the connector's flag of vLLM to a container, or adds Larder beside an existing connector.
//
// Pure; thread-safe; never throws.
#pragma once

#include "operator/api/object.h"
#include "operator/webhook/inject/command_shape.h"
#include "shim/base/status.h"

namespace larder::webhook {

// REQUIRES: shape_of(container) is `shape`: kArgv, kScript or kEntrypoint. kUnsupported: a sentence
// with reason and remedy that begins with "its" or "it"; the container may be partly changed.
Status add_connector_flag(api::Object& container, const CommandShape& shape, int chunk_tokens);

// Whether a container of this shape starts vLLM. For a script: whether it has an engine.
bool starts_engine(const api::Object& container, const CommandShape& shape);

}  // namespace larder::webhook

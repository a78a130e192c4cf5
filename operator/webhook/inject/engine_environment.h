// PYTHONPATH, LARDER_SOCKET and LARDER_POOL of an engine's container.
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>
#include <string_view>

#include "operator/api/object.h"
#include "operator/webhook/inject/command_shape.h"
#include "shim/base/status.h"

namespace larder::webhook {

inline constexpr std::string_view kPythonPath = "/larder/python";  // where the payload's package is

// Larder's folder comes first in PYTHONPATH, and all that was there follows:
// - a shell's script gets a line that puts it there, so that also what the image sets stays;
// - else the container's own variable is prefixed; one that comes from elsewhere (valueFrom, envFrom) is referred to as $(...).
// A PYTHONPATH that only the image sets cannot be seen or referred to, and is replaced where there is no script; what KServe's images
// of its Hugging Face server set, which they do not start without, is repeated.
// LARDER_POOL only names the pool in vLLM's metrics: one that the container has stays.
// kUnsupported: why not and what to do.
Status set_environment(api::Object& container, const CommandShape& shape, const std::string& socket, const std::string& pool);

}  // namespace larder::webhook

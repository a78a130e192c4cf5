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

inline constexpr std::string_view kPythonPath = "/larder/python";  // the payload's package

// Puts Larder's folder first in PYTHONPATH and keeps the earlier entries:
// - A script gets a line that extends the variable, so that the image's value stays. If a command
//   may set the variable out of sight, each engine gets `env PYTHONPATH=...` in front.
// - Otherwise the container's variable gets a prefix. A value of valueFrom or envFrom becomes a
//   $(...).
//
// Without a script, a PYTHONPATH of the image is invisible and is replaced. The value that KServe's
// images of the Hugging Face server need is repeated.
// LARDER_POOL only names the pool in vLLM's metrics; an existing variable stays.
// kUnsupported: reason and remedy.
Status set_environment(api::Object& container, const CommandShape& shape, const std::string& socket,
                       const std::string& pool);

}  // namespace larder::webhook

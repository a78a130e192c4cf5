// Flags that reach vLLM through a variable of the container's environment, as KServe's VLLM_ADDITIONAL_ARGS, or through what follows
// a script in the container's args ($@).
//
// Pure; thread-safe; never throws.
#pragma once

#include "operator/api/object.h"
#include "operator/webhook/inject/script_engines.h"
#include "shim/base/status.h"

namespace larder::webhook {

// Of a script: why a connector that it puts into a variable itself stands against ours, as KServe's script does for the
// kvCacheOffloading of its LLMInferenceService; "" where it puts none there.
std::string hidden_in_script(std::string_view script, const ScriptEngines& engines);

// Where a script's engines get a --kv-transfer-config from such a place, Larder is put beside it there: true. False: there is none.
// kUnsupported: there is one that cannot be changed. `script` is the script's place in argv_of(container).
Result<bool> compose_hidden(api::Object& container, std::size_t script, const ScriptEngines& engines, int chunk_tokens);

}  // namespace larder::webhook

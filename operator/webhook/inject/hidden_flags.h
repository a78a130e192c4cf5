// Flags that reach vLLM through a variable of the container, such as VLLM_ADDITIONAL_ARGS of
// KServe, or through the args after a script ($@).
//
// Pure; thread-safe; never throws.
#pragma once

#include "operator/api/object.h"
#include "operator/webhook/inject/script_engines.h"
#include "shim/base/status.h"

namespace larder::webhook {

// Why a script's own connector in a variable conflicts with ours; "": no such connector. KServe's
// script has one for kvCacheOffloading of an LLMInferenceService.
std::string hidden_in_script(std::string_view script, const ScriptEngines& engines);

// Adds Larder to a --kv-transfer-config that a script's engines get from such a place, and returns
// true. False: no such flag. kUnsupported: the flag cannot be changed. `script`: index of the
// script in argv_of(container).
Result<bool> compose_hidden(api::Object& container, std::size_t script,
                            const ScriptEngines& engines, int chunk_tokens);

}  // namespace larder::webhook

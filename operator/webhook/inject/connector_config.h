// The JSON of --kv-transfer-config: for Larder alone, or for Larder beside an existing connector.
//
// vLLM's MultiConnector loads from its first connector with a hit and saves to all. So the existing
// connector stays first. Pure; thread-safe; never throws.
#pragma once

#include <string>
#include <string_view>

#include "shim/base/status.h"

namespace larder::webhook {

// `chunk_tokens` 0: the connector's default.
std::string connector_config(int chunk_tokens);

// The replacement of `existing`, or the same text if it already has Larder. kUnsupported: one
// sentence with reason and remedy.
Result<std::string> composed_config(std::string_view existing, int chunk_tokens);

}  // namespace larder::webhook

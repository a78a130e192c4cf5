// The JSON of --kv-transfer-config: Larder's own, or Larder beside a connector that is there already.
//
// vLLM's MultiConnector loads from the first of its connectors that has something, and saves to all; so the one that was there stays
// first. Pure; thread-safe; never throws.
#pragma once

#include <string>
#include <string_view>

#include "shim/base/status.h"

namespace larder::webhook {

// `chunk_tokens` 0: the connector's default.
std::string connector_config(int chunk_tokens);

// What to write in the place of `existing`; the same text where Larder is in it already. kUnsupported: one sentence, why not and what
// to do.
Result<std::string> composed_config(std::string_view existing, int chunk_tokens);

}  // namespace larder::webhook

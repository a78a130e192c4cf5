// The JSON of the admin pages: answers, and the bodies of verbs. The only user of nlohmann/json in
// the room. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shim/base/status.h"
#include "shim/protocol/key.h"
#include "sidecar/stats/control.h"
#include "sidecar/stats/stats.h"

namespace larder::pages {

// The body of /v1/status.
std::string status_json(const stats::Stats& stats, bool healthy, bool ready);

// {"dropped": N}, {"found": N, "absent": N, "refused": N}, {"error": TEXT}.
// `shared`: larderd has a backend, so other larderd may still have the chunks in their memory.
std::string dropped_json(std::uint64_t chunks, bool shared);
std::string acted_json(const protocol::ActCounts& acted);
std::string error_json(const std::string& text);
// {"now_ms": N, "next": N, "lost": N, "requests": [{"at_ms", "model", "tokens", "tokens_hit",
// "block_tokens", "block_bytes", "hash_ids"}]}
std::string trace_json(const stats::TracePage& page);

// {"namespace": ID, "hashes": [HEX, ...]}, at most kMaxKeysPerAct hashes. An error names the wrong
// field.
struct ActRequest {
  std::string namespace_id;
  std::vector<protocol::BlockHash> hashes;
};
Result<ActRequest> read_act_request(const std::string& body);

}  // namespace larder::pages

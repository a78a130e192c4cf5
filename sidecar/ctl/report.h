// Replies of larderd to admin verbs in words, and the requests that name chunks. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shim/base/status.h"
#include "shim/protocol/messages.h"

namespace larder::ctl {

// "dropped 12 chunks" from the body of a reply.
Result<std::string> dropped_report(const std::string& json);

// The body of a request that names chunks.
std::string hashes_request(const std::string& space, std::span<const std::string> hashes);

// The counts of one request that names hashes, from the body of the reply.
Result<protocol::ActCounts> read_acted(const std::string& json);
// "pinned 3 of 4 hashes, 1 absent".
std::string acted_report(std::string_view done, const protocol::ActCounts& acted);
// The same as JSON, in the form of larderd.
std::string acted_json(const protocol::ActCounts& acted);

// The reason in the body of an error reply, which is JSON or plain text.
std::string error_of(const std::string& body);

}  // namespace larder::ctl

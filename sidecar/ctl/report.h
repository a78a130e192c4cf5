// What larderd's answers to the verbs mean, in words for a terminal, and the requests that name chunks. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shim/base/status.h"
#include "shim/protocol/messages.h"

namespace larder::ctl {

// "dropped 12 chunks" from the body of a verb's answer.
Result<std::string> dropped_report(const std::string& json);

// The body of a request that names chunks.
std::string hashes_request(const std::string& space, std::span<const std::string> hashes);

// What became of the hashes that one request named, from the body of its answer.
Result<protocol::ActCounts> read_acted(const std::string& json);
// "pinned 3 of 4 hashes, 1 absent".
std::string acted_report(std::string_view done, const protocol::ActCounts& acted);
// The same as larderd answers it.
std::string acted_json(const protocol::ActCounts& acted);

// The reason in the body of a failed answer, which is JSON or plain text.
std::string error_of(const std::string& body);

}  // namespace larder::ctl

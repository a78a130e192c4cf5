// What larderd's answers to the verbs mean, in words for a terminal, and the requests that name chunks. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shim/protocol/status.h"

namespace larder::ctl {

// "dropped 12 chunks" from the body of a verb's answer.
Result<std::string> dropped_report(const std::string& json);

// The body of a request that names chunks.
std::string hashes_request(const std::string& space, std::span<const std::string> hashes);

// What became of the hashes that one or several requests named.
struct Acted {
  std::uint64_t asked = 0, found = 0, absent = 0, refused = 0;
};
// Adds what the answer to one request says, which named so many hashes.
Status add_acted(const std::string& json, std::uint64_t asked, Acted& acted);
// "pinned 3 of 4 hashes, 1 absent".
std::string acted_report(std::string_view done, const Acted& acted);
// The same as larderd answers it.
std::string acted_json(const Acted& acted);

// The reason in the body of a failed answer, which is JSON or plain text.
std::string error_of(const std::string& body);

}  // namespace larder::ctl

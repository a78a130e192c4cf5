// What larderd's answers mean, in words for a terminal. Pure; thread-safe.
#pragma once

#include <string>

#include "shim/protocol/status.h"

namespace larder::ctl {

// One screen of text from the body of /v1/status.
Result<std::string> status_report(const std::string& json);

// "dropped 12 chunks" from the body of a verb's answer.
Result<std::string> dropped_report(const std::string& json);

// The reason in the body of a failed answer, which is JSON or plain text.
std::string error_of(const std::string& body);

}  // namespace larder::ctl

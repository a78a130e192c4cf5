// Talks to a running larderd over the admin socket. The only user of cpp-httplib in larderctl.
// Thread-compatible.
#pragma once

#include <string>

#include "shim/base/status.h"

namespace larder::ctl {

enum class Verb { kGet, kPost };

// Returns the body of a successful reply, within 5 s. `json`: the body of the request. An error
// contains the words of larderd, or the remedy if no larderd answers.
Result<std::string> ask_larderd(const std::string& admin_socket, Verb verb, const std::string& path,
                                const std::string& json = "");

// "a%20b": percent-encoding for the value of a query.
std::string percent_encoded(const std::string& text);

}  // namespace larder::ctl

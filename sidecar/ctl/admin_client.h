// Speaks to a running larderd over its admin socket: the only place of larderctl that knows cpp-httplib. Thread-compatible.
#pragma once

#include <string>

#include "shim/base/status.h"

namespace larder::ctl {

enum class Verb { kGet, kPost };

// The body of a successful answer, at most 5 s later. `json`: the body of the request. Errors say what larderd said, or that none
// answers and what to do.
Result<std::string> ask_larderd(const std::string& admin_socket, Verb verb, const std::string& path,
                                const std::string& json = "");

// "a%20b": what may stand in a query's value.
std::string percent_encoded(const std::string& text);

}  // namespace larder::ctl

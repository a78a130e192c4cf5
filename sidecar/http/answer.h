// One-line answers that need no cpp-httplib. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace larder::http {

// A whole HTTP/1.1 answer of plain text that ends the connection.
std::string plain_answer(int http_status, std::string_view text);

}  // namespace larder::http

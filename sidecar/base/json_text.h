// A text as a JSON string. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace larder::base {

// In quotes, with control characters escaped (as in shim/base/utf8.h);
// each byte that is no valid UTF-8 becomes U+FFFD.
std::string json_text(std::string_view text);

}  // namespace larder::base

// Texts of engines, made fit for metrics. Pure; thread-safe. Defined in status_json.cc, because
// nlohmann/json has the UTF-8 decoder.
#pragma once

#include <string>
#include <string_view>

namespace larder::pages {

// The text with U+FFFD in place of each invalid byte. Prometheus refuses a whole scrape because of
// one invalid byte.
std::string valid_utf8(std::string_view text);

}  // namespace larder::pages

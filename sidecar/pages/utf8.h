// Texts that engines sent, made fit for metrics. Pure; thread-safe. Defined in status_json.cc: nlohmann/json knows UTF-8.
#pragma once

#include <string>
#include <string_view>

namespace larder::pages {

// The text with every byte that is no valid UTF-8 replaced by U+FFFD: Prometheus refuses a whole scrape because of one.
std::string valid_utf8(std::string_view text);

}  // namespace larder::pages

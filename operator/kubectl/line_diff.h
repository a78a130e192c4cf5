// What differs between two texts, line by line, as `diff -u` shows it. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace larder::kubectl {

// Empty where they are the same. `before_name` and `after_name` head it.
std::string line_diff(std::string_view before_name, std::string_view before, std::string_view after_name, std::string_view after);

}  // namespace larder::kubectl

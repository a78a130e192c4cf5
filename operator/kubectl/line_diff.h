// The differing lines of two texts, in the form of `diff -u`. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace larder::kubectl {

// Empty for equal texts. `before_name` and `after_name` are the names in the head.
std::string line_diff(std::string_view before_name, std::string_view before,
                      std::string_view after_name, std::string_view after);

}  // namespace larder::kubectl

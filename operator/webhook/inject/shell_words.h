// Words of shell commands that more than one reader of commands knows. Pure; thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace larder::webhook {

// Commands whose operands NAME=VALUE set a variable for later commands.
inline constexpr std::array<std::string_view, 5> kDeclaring{"export", "declare", "typeset",
                                                            "readonly", "local"};

bool one_of(std::string_view text, const auto& all) {
  return std::ranges::find(all, text) != all.end();
}

}  // namespace larder::webhook

// The rules of the house (docs/design/architecture.md, section 2) as data and pure checks: who may
// include what, and how long a file may be.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace larder::house {

struct Room {
  // files below this folder belong to the room; the longest match wins
  std::string_view path;
  // prefixes of "..." includes that the room may use; its own path always
  std::vector<std::string_view> doors;
  // prefixes of includes, of either kind, that the room may not use all the same
  std::vector<std::string_view> refused;
};

std::span<const Room> rooms();

inline constexpr std::size_t kMostLines = 600;
inline constexpr std::size_t kMostReadmeLines = 60;

// The faults of a source file, a line each: "FILE:LINE: why". `path` is relative to the
// repository's root.
std::vector<std::string> check_source(std::string_view path, std::string_view text);

}  // namespace larder::house

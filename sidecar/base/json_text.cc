#include "sidecar/base/json_text.h"

#include <array>
#include <cstdint>
#include <cstdio>

#include "shim/base/utf8.h"

namespace larder::base {
namespace {

std::string hex_escape(unsigned code_point) {
  std::array<char, 8> hex{};
  std::snprintf(hex.data(), hex.size(), "\\u%04x", code_point);
  return hex.data();
}

// `character`: valid UTF-8 that JSON wants escaped.
std::string escaped(std::string_view character) {
  const auto bits = [character](std::size_t i, unsigned mask) {
    return static_cast<std::uint8_t>(character[i]) & mask;
  };
  // Decodes UTF-8 by hand: 1110xxxx 10xxxxxx 10xxxxxx, then 110xxxxx 10xxxxxx. Control characters
  // have at most three bytes, so the form with four bytes never gets here. Example: U+2028 ends a
  // line in JavaScript.
  if (character.size() == 3)
    return hex_escape(bits(0, 0x0f) << 12 | bits(1, 0x3f) << 6 | bits(2, 0x3f));
  if (character.size() == 2) return hex_escape(bits(0, 0x1f) << 6 | bits(1, 0x3f));
  switch (character.front()) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\t': return "\\t";
    default: return hex_escape(bits(0, 0xff));
  }
}

bool needs_escape(std::string_view character) {
  return character.front() == '"' || character.front() == '\\' ||
         is_control(character, character.size());
}

}  // namespace

// JSON must be valid UTF-8, and the text may come from an engine or a peer. One bad byte would
// otherwise make the whole document unreadable.
std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    const std::string_view character = text.substr(0, bytes);
    if (bytes == 0)
      // U+FFFD in UTF-8.
      quoted += "\xef\xbf\xbd";
    else if (needs_escape(character))
      quoted += escaped(character);
    else
      quoted += character;
    // Only the bad byte is replaced. The next byte may begin a valid character.
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return quoted + '"';
}

}  // namespace larder::base

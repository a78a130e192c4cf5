#include "sidecar/base/json_text.h"

#include <array>
#include <cstdint>
#include <cstdio>

namespace larder::base {
namespace {

// Bytes of the valid UTF-8 sequence at the start of `text`; 0 where it is none (overlong forms and surrogates are none).
std::size_t sequence_bytes(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const std::uint8_t second = byte(1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool beyond = (first == 0xed && second > 0x9f) || (first == 0xf4 && second > 0x8f);
  return overlong || beyond ? 0 : bytes;
}

std::string escaped(char c) {
  switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\t': return "\\t";
    default: break;
  }
  std::array<char, 8> hex{};
  std::snprintf(hex.data(), hex.size(), "\\u%04x", static_cast<unsigned>(static_cast<std::uint8_t>(c)));
  return hex.data();
}

bool needs_escape(char c) {
  return c == '"' || c == '\\' || c == 0x7f || static_cast<std::uint8_t>(c) < ' ';
}

}  // namespace

std::string json_text(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t bytes = sequence_bytes(text);
    if (bytes == 0)
      quoted += "\xef\xbf\xbd";
    else if (needs_escape(text.front()))
      quoted += escaped(text.front());
    else
      quoted += text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return quoted + '"';
}

}  // namespace larder::base

// Names and other texts that the other side, or an engine, chose: fit for a log line, a metric
// label and a terminal. Pure; thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace larder {

// Bytes of the valid UTF-8 sequence at the start of `text`; 0 without one (overlong forms and
// surrogates are invalid).
// REQUIRES: `text` is not empty.
constexpr std::size_t utf8_bytes(std::string_view text) {
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

// Whether a terminal may obey the character at the start of `text` or show the text after it
// elsewhere: a control character (C0, DEL, C1), a line separator, a change of the direction of
// writing. REQUIRES: a valid sequence of `bytes`.
constexpr bool is_control(std::string_view text, std::size_t bytes) {
  const auto byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  if (bytes == 1) return byte(0) < ' ' || byte(0) == 0x7f;
  if (bytes == 2) return byte(0) == 0xc2 && byte(1) < 0xa0;
  if (bytes != 3 || byte(0) != 0xe2) return false;
  // U+2028 to U+202E, and U+2066 to U+2069.
  return (byte(1) == 0x80 && byte(2) >= 0xa8 && byte(2) <= 0xae) ||
         (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9);
}

// The beginning of `text`, at most so many bytes, cut between characters.
constexpr std::string_view cut_text(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  std::size_t end = most_bytes;
  // Back to the start of the character that does not fit. A run of continuation bytes without a
  // start is cut in place.
  for (std::size_t back = 0; back < 4 && back <= end; ++back)
    if ((static_cast<std::uint8_t>(text[end - back]) & 0xc0) != 0x80)
      return text.substr(0, end - back);
  return text.substr(0, end);
}

// `text` with each control character and each byte that is no UTF-8 as "\xHH". The result is cut to
// `most_bytes`, between characters.
inline std::string clean_text(std::string_view text, std::size_t most_bytes = std::string::npos) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string clean;
  while (!text.empty()) {
    const std::size_t bytes = utf8_bytes(text);
    const std::size_t taken = bytes == 0 ? 1 : bytes;
    const bool kept = bytes != 0 && !is_control(text, bytes);
    if (clean.size() + (kept ? taken : 4 * taken) > most_bytes) break;
    for (const char c : text.substr(0, taken)) {
      const auto byte = static_cast<std::uint8_t>(c);
      if (kept)
        clean += c;
      else
        clean.append({'\\', 'x', kHex[byte >> 4], kHex[byte & 0xf]});
    }
    text.remove_prefix(taken);
  }
  return clean;
}

}  // namespace larder

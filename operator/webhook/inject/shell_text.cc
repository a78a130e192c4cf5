#include "operator/webhook/inject/shell_text.h"

#include <algorithm>
#include <cctype>

namespace larder::webhook {

// An array's elements stand apart, so its word has no literal text.
std::optional<std::string> ShellWord::literal() const {
  if (array || std::ranges::any_of(meaning, &Cell::unknown)) return std::nullopt;
  return known();
}

std::string ShellWord::known() const {
  std::string text;
  for (const Cell& cell : meaning)
    if (!cell.unknown) text += cell.c;
  return text;
}

// Cells of the script have bytes as their origin, and cells of a second reading have cells.
ShellText shell_text(std::string_view script) {
  ShellText text;
  text.reserve(script.size());
  for (std::size_t at = 0; at < script.size(); ++at)
    text.push_back({script[at], false, Quotes::kNone, at, at + 1});
  return text;
}

std::string without_comment_lines(std::string_view script) {
  std::string kept;
  while (!script.empty()) {
    const std::string_view line = script.substr(0, script.find('\n'));
    script.remove_prefix(std::min(line.size() + 1, script.size()));
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos || line[first] != '#') kept.append(line).append("\n");
  }
  return kept;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::string shell_quoted(std::string_view text) {
  return "'" + shell_encoded(text, Quotes::kSingle) + "'";
}

// In single quotes, ' ends the quotes, is escaped, and opens them again: '\''.
std::string shell_encoded(std::string_view text, Quotes around) {
  if (around == Quotes::kNone) return shell_quoted(text);
  std::string encoded;
  for (const char c : text) {
    if (around == Quotes::kSingle && c == '\'') {
      encoded += R"('\'')";
      continue;
    }
    if (around == Quotes::kDouble && std::string_view("\\\"$`").find(c) != std::string_view::npos)
      encoded += '\\';
    encoded += c;
  }
  return encoded;
}

}  // namespace larder::webhook

#include "operator/kubectl/yaml_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <string_view>

#include "shim/base/utf8.h"
#include "sidecar/base/text.h"

namespace larder::kubectl {
namespace {

using api::Object;

// Words that YAML 1.1 or 1.2 does not read as text.
// YAML 1.1 reads "no" as false, and YAML 1.2 as text: quotes are right for both.
constexpr std::array<std::string_view, 9> kWords{"true", "false", "null", "yes", "no",
                                                 "on",   "off",   "y",    "n"};

bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "4Gi", "100m": digits with a unit, which YAML reads as text. ("1e3" and "0x1f" are numbers.)
// Quotes around 4Gi would be right as well, but the output should look like the user's files.
bool is_quantity(std::string_view text) {
  const std::size_t unit = text.find_first_not_of("0123456789.");
  if (unit == 0 || unit == std::string_view::npos || !is_digit(text.front())) return false;
  const std::string_view name = text.substr(unit);
  return name == "m" || name == "k" ||
         (std::string_view("KMGTP").find(name[0]) != std::string_view::npos &&
          (name.size() == 1 || (name.size() == 2 && name[1] == 'i')));
}

// Whether the text needs no quotes.
// The rule is narrower than YAML's: a text that only might need quotes gets them.
bool is_plain(std::string_view text) {
  if (text.empty() || text.back() == ' ' || text.back() == ':') return false;
  if (is_quantity(text)) return true;
  if (!is_letter(text.front()) && text.front() != '/' && text.front() != '_') return false;
  if (std::ranges::find(kWords, base::lower(text)) != kWords.end()) return false;
  constexpr std::string_view kAllowed = "_./-@%+=:,; ()";
  if (!std::ranges::all_of(text, [&](char c) {
        return is_letter(c) || is_digit(c) || kAllowed.find(c) != std::string_view::npos;
      }))
    return false;
  return text.find(": ") == std::string_view::npos && text.find("  ") == std::string_view::npos;
}

// Length in bytes of a control character beyond ASCII at `i` (utf8.h), or 0. Some of these end a
// line in YAML 1.1.
std::size_t control_bytes(std::string_view text, std::size_t i) {
  const std::string_view rest = text.substr(i);
  const std::size_t bytes = utf8_bytes(rest);
  return bytes > 1 && is_control(rest, bytes) ? bytes : 0;
}

// A block keeps scripts readable. A first line with a blank would set the indentation of the block.
bool may_stand_in_a_block(std::string_view text) {
  if (text.find('\n') == std::string_view::npos || text.front() == ' ' || text.front() == '\n')
    return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f || control_bytes(text, i) != 0)
      return false;
  }
  return true;
}

// Escapes of YAML's double-quoted style. \u needs the code point, decoded from three bytes of
// UTF-8. \x suffices for two bytes, since C1 controls end at U+009F.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto code = static_cast<unsigned char>(c);
    const std::size_t control = control_bytes(text, i);
    const auto bits = [&](std::size_t at, unsigned mask) {
      return static_cast<unsigned char>(text[i + at]) & mask;
    };
    char escape[16];
    if (c == '"' || c == '\\') {
      out += std::string("\\") + c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (control == 3) {
      std::snprintf(escape, sizeof(escape), "\\u%04x",
                    bits(0, 0x0f) << 12 | bits(1, 0x3f) << 6 | bits(2, 0x3f));
      out += escape;
      i += 2;
    } else if (code < 0x20 || code == 0x7f || control == 2) {
      std::snprintf(escape, sizeof(escape), "\\x%02x",
                    control == 2 ? bits(1, 0xff) : unsigned{code});
      out += escape;
      i += control == 2 ? 1 : 0;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// The text as a block with lines at `indent`.
std::string block(std::string_view text, std::size_t indent) {
  const std::size_t last = text.find_last_not_of('\n');
  const std::size_t ends = text.size() - last - 1;
  // |- keeps no final newline, | keeps one, |+ keeps all.
  std::string out = ends == 0 ? "|-\n" : ends == 1 ? "|\n" : "|+\n";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) out += std::string(indent, ' ') + std::string(text.substr(at, end - at));
    out += "\n";
    at = end + 1;
  }
  return out;
}

// A text with a final newline.
std::string scalar(const Object& value, std::size_t indent) {
  if (!value.is_string()) return value.dump() + "\n";
  const auto& text = value.get_ref<const std::string&>();
  if (is_plain(text)) return text + "\n";
  return may_stand_in_a_block(text) ? block(text, indent) : in_quotes(text) + "\n";
}

std::string entries(const Object& object, std::size_t indent);

// The value behind "key:".
// Lists stand at the indentation of their key, as kubectl prints them.
std::string value_text(const Object& value, std::size_t indent) {
  if (value.is_object() && !value.empty()) return "\n" + entries(value, indent + 2);
  if (value.is_array() && !value.empty()) return "\n" + entries(value, indent);
  if (value.is_structured()) return value.is_array() ? " []\n" : " {}\n";
  return " " + scalar(value, indent + 2);
}

std::string item_text(const Object& item, std::size_t indent) {
  const std::string dash = std::string(indent, ' ') + "- ";
  if (!item.is_structured()) return dash + scalar(item, indent + 2);
  if (item.empty()) return dash + (item.is_array() ? "[]\n" : "{}\n");
  // The first entry stands behind the dash: its indentation is cut.
  return dash + entries(item, indent + 2).substr(indent + 2);
}

std::string entries(const Object& object, std::size_t indent) {
  std::string out;
  if (object.is_array()) {
    for (const Object& item : object) out += item_text(item, indent);
    return out;
  }
  for (const auto& [key, value] : object.items())
    out += std::string(indent, ' ') + (is_plain(key) ? key : in_quotes(key)) + ":" +
           value_text(value, indent);
  return out;
}

}  // namespace

std::string yaml_text(const Object& object) {
  if (object.is_structured() && !object.empty()) return entries(object, 0);
  return object.is_structured() ? object.dump() + "\n" : scalar(object, 2);
}

}  // namespace larder::kubectl

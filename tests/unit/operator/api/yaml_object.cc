#include "tests/unit/operator/api/yaml_object.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <regex>

namespace larder::test {
namespace {

using api::Object;

Object scalar(const YAML::Node& node) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // quoted
  if (text.empty() || text == "~" || text == "null") return nullptr;
  if (text == "true" || text == "false") return text == "true";
  static const std::regex kNumber("-?(0|[1-9][0-9]*)");
  if (std::regex_match(text, kNumber)) {
    std::int64_t number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  }
  return text;
}

Object object_of(const YAML::Node& node) {
  if (node.IsScalar()) return scalar(node);
  if (node.IsSequence()) {
    Object list = Object::array();
    for (const YAML::Node& element : node) list.push_back(object_of(element));
    return list;
  }
  if (!node.IsMap()) return nullptr;
  Object map = Object::object();
  for (const auto& pair : node) map[pair.first.Scalar()] = object_of(pair.second);
  return map;
}

bool is_plain(const std::string& text) {
  static const std::regex kPlain("[A-Za-z/_][A-Za-z0-9 ./_()+-]*[A-Za-z0-9/_)]|[A-Za-z/]");
  static const std::regex kWord("true|false|null|yes|no|on|off|y|n", std::regex::icase);
  return std::regex_match(text, kPlain) && !std::regex_match(text, kWord);
}

std::string quoted(const std::string& text) {
  bool simple = true;
  for (const char c : text)
    simple =
        simple && static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x7F;
  if (!simple) return Object(text).dump();
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "''" : std::string(1, c);
  return quoted + "'";
}

// Printable lines, the first not indented, no later one with spaces at its end. By hand: std::regex
// takes stack for each character.
bool has_only_lines(const std::string& text) {
  if (text.empty() || text.front() == ' ' || text.front() == '\n') return false;
  if (!std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }))
    return false;
  const std::size_t second = std::min(text.find('\n'), text.size());
  return text.find(" \n", second) == std::string::npos &&
         (second == text.size() || text.back() != ' ');
}

// As a block, if a block can have the text: such lines, at most one newline at the end.
std::string block(const std::string& text, const std::string& indent) {
  if (text.find('\n') == std::string::npos || !has_only_lines(text) || text.ends_with("\n\n"))
    return "";
  std::string lines = text.ends_with('\n') ? "|\n" : "|-\n";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines += end == at ? "\n" : indent + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return lines;
}

std::string inline_scalar(const Object& object) {
  if (!object.is_string()) return object.dump();
  const std::string& text = object.get_ref<const std::string&>();
  return is_plain(text) ? text : quoted(text);
}

// In one line; "" where a text has several.
std::string in_one_line(const Object& object) {
  if (object.is_string() && object.get_ref<const std::string&>().find('\n') != std::string::npos)
    return "";
  if (!object.is_structured()) return inline_scalar(object);
  std::string line;
  for (const auto& [key, value] : object.items()) {
    const std::string element = in_one_line(value);
    if (element.empty()) return "";
    line += (line.empty() ? "" : ", ") + (object.is_object() ? inline_scalar(key) + ": " : "") +
            element;
  }
  return object.is_object() ? "{" + line + "}" : "[" + line + "]";
}

// Appends the value in the line that `yaml` ends with, where the line has room.
bool fits(const Object& object, std::size_t columns, std::string& yaml) {
  const std::string line = in_one_line(object);
  const std::size_t begun = yaml.size() - (yaml.rfind('\n') + 1);
  if (line.empty() || begun + 1 + line.size() > columns) return false;
  yaml += " " + line + "\n";
  return true;
}

// `columns`: see to_yaml().
void write(const Object& object, const std::string& indent, bool in_list, std::size_t columns,
           std::string& yaml) {
  if (object.is_object() && !object.empty()) {
    bool first = in_list;
    for (const auto& [key, value] : object.items()) {
      yaml += (first ? " " : indent) + (is_plain(key) ? key : quoted(key)) + ":";
      first = false;
      const bool nested = value.is_structured() && !value.empty();
      if (nested && fits(value, columns, yaml)) continue;
      if (nested) yaml += "\n";
      write(value, value.is_array() ? indent : indent + "  ", false, columns, yaml);
    }
  } else if (object.is_array() && !object.empty()) {
    bool first = in_list;
    for (const Object& element : object) {
      yaml += (first ? " -" : indent + "-");
      first = false;
      if (element.is_structured() && fits(element, columns, yaml)) continue;
      write(element, indent + "  ", true, columns, yaml);
    }
  } else if (object.is_string()) {
    const std::string& text = object.get_ref<const std::string&>();
    const std::string lines = block(text, indent);
    yaml += " " + (!lines.empty() ? lines : (is_plain(text) ? text : quoted(text)) + "\n");
  } else {
    yaml += " " + object.dump() + "\n";
  }
}

}  // namespace

std::vector<Object> from_yaml(const std::string& text) {
  std::vector<Object> documents;
  for (const YAML::Node& node : YAML::LoadAll(text)) documents.push_back(object_of(node));
  return documents;
}

std::string to_yaml(const Object& object, std::size_t columns, std::size_t indent) {
  std::string yaml;
  write(object, std::string(indent, ' '), false, columns, yaml);
  return yaml;
}

}  // namespace larder::test

#include "operator/api/object.h"

#include <algorithm>
#include <limits>

namespace larder::api {
namespace {

// child() and at() return references, so a missing value needs an object that outlives the call.
const Object& nothing() {
  static const Object null;
  return null;
}

// Nesting depth of brackets, counted before a parser sees the text. The count is wrong only for
// invalid JSON.
// dump() of nlohmann/json recurses once per level: a review of 100,000 brackets must not reach it.
bool deeper_than(std::string_view text, int most) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      // The byte after a backslash ends no text: "\"" has one quote inside.
      if (c == '\\') ++i;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > most) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

std::optional<std::string> in_metadata(const Object& object, std::string_view map,
                                       std::string_view key) {
  const Object& found = child(at(object, map), key);
  if (!found.is_string()) return std::nullopt;
  return found.get_ref<const std::string&>();
}

}  // namespace

// Both bounds are checked before the parser: the parser needs many times the bytes of the text in
// memory.
Result<Object> parse_json(std::string_view text) {
  if (text.size() > kMostBytes)
    return Status(Code::kOutOfRange, "JSON of " + std::to_string(text.size()) + " bytes: at most " +
                                         std::to_string(kMostBytes) + " are read");
  if (deeper_than(text, kMostDepth))
    return Status(Code::kInvalidArgument,
                  "JSON nests deeper than " + std::to_string(kMostDepth) + " levels");
  try {
    return Object::parse(text.begin(), text.end());
  } catch (const Object::parse_error& error) {
    return Status(Code::kInvalidArgument, "no valid JSON at byte " + std::to_string(error.byte));
    // For example 1e999. Such an error has no position in the text.
  } catch (const Object::exception&) {
    return Status(Code::kInvalidArgument, "JSON holds a number that is too large");
  }
}

const Object& child(const Object& object, std::string_view key) {
  if (!object.is_object()) return nothing();
  const auto found = object.find(key);
  return found == object.end() ? nothing() : *found;
}

// Keys with a dot (annotations) cannot be reached by a path. annotation() and label() take their
// key apart from the path.
const Object& at(const Object& object, std::string_view path) {
  const Object* here = &object;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    here = &child(*here, path.substr(begin, end - begin));
    begin = end + 1;
  }
  return *here;
}

std::string text_at(const Object& object, std::string_view path) {
  const Object& found = at(object, path);
  return found.is_string() ? found.get<std::string>() : "";
}

std::int64_t number_at(const Object& object, std::string_view path, std::int64_t otherwise) {
  const Object& found = at(object, path);
  // nlohmann/json keeps positive integers above int64 as unsigned. A cast would make them negative.
  if (!found.is_number_integer()) return otherwise;
  const bool too_large =
      found.is_number_unsigned() &&
      found.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  return too_large ? otherwise : found.get<std::int64_t>();
}

bool truth_at(const Object& object, std::string_view path, bool otherwise) {
  const Object& found = at(object, path);
  return found.is_boolean() ? found.get<bool>() : otherwise;
}

std::string name_of(const Object& object) {
  return text_at(object, "metadata.name");
}

std::string namespace_of(const Object& object) {
  return text_at(object, "metadata.namespace");
}

std::optional<std::string> annotation(const Object& object, std::string_view key) {
  return in_metadata(object, "metadata.annotations", key);
}

std::optional<std::string> label(const Object& object, std::string_view key) {
  return in_metadata(object, "metadata.labels", key);
}

}  // namespace larder::api

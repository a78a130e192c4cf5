#include "operator/api/object.h"

#include <algorithm>
#include <limits>

namespace larder::api {
namespace {

const Object& nothing() {
  static const Object null;
  return null;
}

// How deep brackets nest, before a parser sees them. Counts wrongly only in what is no JSON anyway.
bool deeper_than(std::string_view text, int most) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
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

std::optional<std::string> in_metadata(const Object& object, std::string_view map, std::string_view key) {
  const Object& found = child(at(object, map), key);
  if (!found.is_string()) return std::nullopt;
  return found.get_ref<const std::string&>();
}

struct Suffix {
  std::string_view name;
  std::uint64_t factor;
};
constexpr std::uint64_t kThousand = 1000;
constexpr Suffix kSuffixes[] = {{"Ki", 1ULL << 10},
                                {"Mi", 1ULL << 20},
                                {"Gi", 1ULL << 30},
                                {"Ti", 1ULL << 40},
                                {"Pi", 1ULL << 50},
                                {"Ei", 1ULL << 60},
                                {"k", kThousand},
                                {"M", kThousand* kThousand},
                                {"G", kThousand* kThousand* kThousand},
                                {"T", kThousand* kThousand* kThousand* kThousand},
                                {"P", kThousand* kThousand* kThousand* kThousand* kThousand},
                                {"E", kThousand* kThousand* kThousand* kThousand* kThousand* kThousand},
                                {"m", 1},
                                {"", 1}};
constexpr int kMostDigits = 15;  // what a product with the largest factor leaves room for in 128 bits

Status no_quantity(std::string_view text, std::string_view why) {
  return {Code::kInvalidArgument, "'" + std::string(text.substr(0, 40)) + "' " + std::string(why)};
}

// How many parts of 1/`parts` it is.
Result<std::uint64_t> in_units(std::string_view text, std::uint64_t parts) {
  constexpr std::string_view kForm = "is no size: write a number with Ki, Mi, Gi or Ti, e.g. 8Gi";
  if (text.starts_with('-')) return no_quantity(text, "is negative");
  unsigned __int128 number = 0;
  unsigned __int128 divisor = 1;
  int digits = 0;
  bool fraction = false;
  std::size_t i = 0;
  for (; i < text.size() && (text[i] == '.' || (text[i] >= '0' && text[i] <= '9')); ++i) {
    if (text[i] == '.') {
      if (fraction) return no_quantity(text, kForm);
      fraction = true;
      continue;
    }
    if (++digits > kMostDigits) return no_quantity(text, "has too many digits");
    number = number * 10 + static_cast<unsigned>(text[i] - '0');
    if (fraction) divisor *= 10;
  }
  if (digits == 0) return no_quantity(text, kForm);
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.name != text.substr(i)) continue;
    number = number * suffix.factor * parts;
    if (suffix.name == "m") divisor *= kThousand;
    if (number % divisor != 0) return no_quantity(text, "is no whole number of bytes: take a smaller unit, e.g. 1536Mi");
    number /= divisor;
    if (number > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) return no_quantity(text, "is too large");
    return static_cast<std::uint64_t>(number);
  }
  return no_quantity(text, kForm);
}

}  // namespace

Result<Object> parse_json(std::string_view text) {
  if (text.size() > kMostBytes)
    return Status(Code::kOutOfRange,
                  "JSON of " + std::to_string(text.size()) + " bytes: at most " + std::to_string(kMostBytes) + " are read");
  if (deeper_than(text, kMostDepth))
    return Status(Code::kInvalidArgument, "JSON nests deeper than " + std::to_string(kMostDepth) + " levels");
  try {
    return Object::parse(text.begin(), text.end());
  } catch (const Object::parse_error& error) {
    return Status(Code::kInvalidArgument, "no valid JSON at byte " + std::to_string(error.byte));
  } catch (const Object::exception&) {
    return Status(Code::kInvalidArgument, "JSON holds a number that is too large");
  }
}

const Object& child(const Object& object, std::string_view key) {
  if (!object.is_object()) return nothing();
  const auto found = object.find(key);
  return found == object.end() ? nothing() : *found;
}

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
  if (!found.is_number_integer()) return otherwise;
  const bool too_large =
      found.is_number_unsigned() && found.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
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

Result<std::uint64_t> quantity_bytes(std::string_view text) {
  return in_units(text, 1);
}

Result<std::uint64_t> quantity_milli(std::string_view text) {
  return in_units(text, kThousand);
}

}  // namespace larder::api

#include "operator/api/spec_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace larder::api {
namespace {

// The bounds keep a hostile object out of logs and status. A pool of a user is untrusted input of
// the operator.
constexpr std::size_t kMostShown = 64;              // of a value, in an error
constexpr std::size_t kMostText = 4096;             // of one string
constexpr std::size_t kMostTexts = 64;              // of one list of strings
constexpr std::uint64_t kMostSeconds = 1ULL << 32;  // larderd has 32 bits for seconds

std::string listed(std::span<const std::string_view> allowed) {
  std::string text;
  for (const std::string_view one : allowed) text += (text.empty() ? "" : ", ") + std::string(one);
  return text;
}

std::string shown(std::string_view text) {
  return "'" + std::string(text.substr(0, kMostShown)) + (text.size() > kMostShown ? "..." : "") +
         "'";
}

// A type test of Object as a plain function.
template <bool (Object::*kTest)() const noexcept>
bool holds(const Object& value) {
  return (value.*kTest)();
}

bool is_quantity(const Object& value) {
  return value.is_string() || value.is_number();
}

// The form of larderd's options: one number and one unit, for example 90s. Go's "1h30m" is not
// allowed.
bool is_duration(std::string_view text) {
  if (text == "0") return true;
  constexpr std::array<std::pair<char, std::uint64_t>, 4> kUnits{
      {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86'400}}};
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number == 0 || end + 1 != text.data() + text.size()) return false;
  const auto* unit = std::ranges::find(kUnits, *end, &std::pair<char, std::uint64_t>::first);
  // `<` after the division: number * unit cannot overflow, and stays below the 32 bits of larderd.
  return unit != kUnits.end() && number < kMostSeconds / unit->second;
}

}  // namespace

// While the reader describes itself, every optional part counts as present, so its fields are
// visited.
bool SpecReader::has(std::string_view path) const {
  return describing_ || !at(object_, path).is_null();
}

// The first fault wins: a later fault is often a consequence of the first, and a condition shows
// one text.
void SpecReader::refuse(std::string_view path, std::string_view why) {
  if (describing_ || !status_.ok()) return;
  status_ = Status(Code::kInvalidArgument, std::string(path) + ": " + std::string(why));
}

// The value at `path`; null for a missing value. A value of another type is refused and gives null.
const Object& SpecReader::found(std::string_view path, std::string_view type,
                                std::string_view otherwise, bool (*is)(const Object& value)) {
  static const Object null;
  fields_.push_back({std::string(path), std::string(type), std::string(otherwise), {}});
  const Object& value = at(object_, path);
  if (value.is_null() || is(value)) return value;
  refuse(path, "is " + std::string(value.type_name()) + ": must be " + std::string(type));
  return null;
}

std::string SpecReader::text(std::string_view path, std::string_view otherwise) {
  const Object& value = found(path, "string", otherwise, &holds<&Object::is_string>);
  if (value.is_null()) return std::string(otherwise);
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > kMostText)
    refuse(path, "is longer than " + std::to_string(kMostText) + " bytes");
  // The texts go into configuration files and log lines, where a line end would begin another
  // entry.
  if (std::ranges::any_of(text, [](unsigned char c) { return c < ' ' || c == 0x7f; }))
    refuse(path, "holds a control character");
  return text;
}

std::string SpecReader::needed_text(std::string_view path) {
  std::string value = text(path);
  if (value.empty()) refuse(path, "is missing");
  return value;
}

std::size_t SpecReader::choice(std::string_view path, std::span<const std::string_view> allowed,
                               std::string_view otherwise) {
  const std::string value = text(path, otherwise);
  fields_.back().allowed.assign(allowed.begin(), allowed.end());
  const auto one = std::ranges::find(allowed, value);
  if (one != allowed.end()) return static_cast<std::size_t>(one - allowed.begin());
  refuse(path, shown(value) + " is not one of: " + listed(allowed));
  return 0;
}

std::int64_t SpecReader::number(std::string_view path, std::int64_t least, std::int64_t most,
                                std::int64_t otherwise) {
  const bool has_default = otherwise != 0;
  const Object& value = found(path, "integer", has_default ? std::to_string(otherwise) : "",
                              &holds<&Object::is_number_integer>);
  if (value.is_null()) return otherwise;
  // An unsigned number above int64 would be negative after get<int64_t>(), and within the range by
  // accident.
  const bool too_large =
      value.is_number_unsigned() && value.get<std::uint64_t>() > static_cast<std::uint64_t>(most);
  const auto number = value.get<std::int64_t>();
  if (!too_large && number >= least && number <= most) return number;
  refuse(path, value.dump() + " is out of range: " + std::to_string(least) + " to " +
                   std::to_string(most));
  return otherwise;
}

bool SpecReader::truth(std::string_view path, bool otherwise) {
  const Object& value =
      found(path, "boolean", otherwise ? "true" : "false", &holds<&Object::is_boolean>);
  return value.is_null() ? otherwise : value.get<bool>();
}

std::vector<std::string> SpecReader::texts(std::string_view path) {
  std::vector<std::string> all;
  const Object& value = found(path, "array", "", &holds<&Object::is_array>);
  if (value.size() > kMostTexts)
    refuse(path, "has more than " + std::to_string(kMostTexts) + " items");
  for (const Object& one : value) {
    if (!one.is_string())
      refuse(path, "holds " + std::string(one.type_name()) + ": must be strings");
    // The list stays bounded after the refusal, since the parser goes on and later checks walk
    // over the list.
    if (one.is_string() && all.size() < kMostTexts) all.push_back(one.get<std::string>());
  }
  return all;
}

Object SpecReader::map(std::string_view path) {
  return found(path, "object", "", &holds<&Object::is_object>);
}

Object SpecReader::list(std::string_view path) {
  return found(path, "array", "", &holds<&Object::is_array>);
}

SpecReader::Size SpecReader::size(std::string_view path, std::uint64_t least, std::uint64_t most,
                                  std::string_view otherwise) {
  const Object& value = found(path, "quantity", otherwise, &is_quantity);
  Size size{value.is_null() ? std::string(otherwise) : quantity_text(value), 0};
  if (size.text.empty()) {
    refuse(path, "is missing: write a size, e.g. 8Gi");
    return size;
  }
  const Result<std::uint64_t> bytes = quantity_bytes(size.text);
  if (!bytes.ok()) {
    refuse(path, bytes.status().text());
    return size;
  }
  size.bytes = *bytes;
  // "0" means no limit for optional sizes such as backendWrite.rate, although 0 is below the least
  // value.
  const bool unset = size.bytes == 0 && otherwise == "0";
  if (!unset && (size.bytes < least || size.bytes > most))
    refuse(path, shown(size.text) + " is out of range: " + std::to_string(least >> 20) + "Mi to " +
                     std::to_string(most >> 30) + "Gi");
  return size;
}

std::string SpecReader::duration(std::string_view path) {
  std::string value = text(path, "0");
  if (!is_duration(value))
    refuse(path,
           shown(value) + " is no duration: write 0 for no limit, or e.g. 90s, 15m, 12h, 30d");
  return value;
}

}  // namespace larder::api

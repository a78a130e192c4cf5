#include "sidecar/store/fingerprint_diff.h"

#include <algorithm>
#include <map>
#include <set>

#include "shim/base/utf8.h"

namespace larder::store {
namespace {

constexpr std::size_t kMaxNamedFields = 8;
constexpr std::size_t kMaxValueChars = 80;
// Names of lines and the form of long values are those of shim/python/larder/fingerprint.py.
// The digest of all that may have no line of its own. It differs with every other field, and tells
// something only where none does.
constexpr std::string_view kDigest = "configuration";
constexpr std::string_view kFurther = "further_fields";  // of the configuration, which had no room
// One line has all fields of a part of the configuration.
constexpr std::string_view kFolded = "folded_fields";
constexpr std::size_t kDigestChars = 32;

struct Fields {
  // A field that comes several times (one line a layer) has its lines joined.
  std::map<std::string, std::string, std::less<>> values;
  // The lines behind the digest: fields of the configuration that are not at their defaults.
  std::set<std::string, std::less<>> configured;
  bool cut = false;  // some fields of the configuration have no line of their own

  // Adds the fields that `other` alone has.
  void complete(const Fields& other) {
    const char* const unset = cut || other.cut ? "(not shown)" : "(the default)";
    for (const auto& [name, value] : other.values)
      values.emplace(name, other.configured.contains(name) ? unset : "(none)");
  }
};

Fields parse(std::string_view text) {
  Fields fields;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t colon = line.find(':');
    if (line.empty()) continue;
    const std::string_view name = line.substr(0, colon);
    std::string_view value =
        colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    std::string& joined = fields.values[std::string(name)];
    if (!joined.empty()) joined += ' ';
    joined += value;
    if (name == kFurther || name == kFolded)
      fields.cut = true;
    else if (fields.values.contains(kDigest))
      fields.configured.emplace(name);
  }
  return fields;
}

// " (812 characters, 0123...)", the end of each long value: its length and its digest. Else empty.
std::string_view end_of_long(std::string_view value) {
  constexpr std::string_view kBefore = " characters, ";
  if (value.size() < kDigestChars + 1 || !value.ends_with(')')) return {};
  const std::string_view digest = value.substr(value.size() - 1 - kDigestChars, kDigestChars);
  const std::string_view front = value.substr(0, value.size() - 1 - kDigestChars);
  if (digest.find_first_not_of("0123456789abcdef") != std::string_view::npos ||
      !front.ends_with(kBefore))
    return {};
  const std::size_t begin = front.rfind('(');
  return begin == std::string_view::npos ? std::string_view() : value.substr(begin);
}

// One of two texts may show less of the same long value.
bool same(std::string_view one, std::string_view other) {
  if (one == other) return true;
  const std::string_view end = end_of_long(one);
  return !end.empty() && end == end_of_long(other);
}

// Long values differ somewhere inside: show the place.
std::string shown(const std::string& value, const std::string& other) {
  if (value.size() <= kMaxValueChars) return value;
  std::size_t same = 0;
  while (same < value.size() && same < other.size() && value[same] == other[same]) ++same;
  const std::size_t wanted = same > kMaxValueChars / 4 ? same - kMaxValueChars / 4 : 0;
  const std::size_t start = cut_text(value, wanted).size();  // not inside a character
  const std::string part(cut_text(std::string_view(value).substr(start), kMaxValueChars));
  return (start == 0 ? "" : "...") + part + (start + part.size() < value.size() ? "..." : "");
}

}  // namespace

FingerprintDifference diff_fingerprints(std::string_view known, std::string_view fresh) {
  Fields old_fields = parse(known), new_fields = parse(fresh);
  auto& before = old_fields.values;
  auto& after = new_fields.values;
  new_fields.complete(old_fields);
  old_fields.complete(new_fields);
  FingerprintDifference difference;
  const auto differs = [&](const auto& field) {
    return field.first != kFolded && !same(before[field.first], field.second);
  };
  const bool by_digest_alone = std::ranges::count_if(after, differs) == 1;
  for (const auto& [name, value] : after) {
    const std::string& old = before[name];
    if (same(old, value) || name == kFolded || (name == kDigest && !by_digest_alone)) continue;
    if (++difference.fields > kMaxNamedFields) continue;
    difference.names.emplace_back(cut_text(name, kMaxValueChars));
    if (!difference.text.empty()) difference.text += "; ";
    difference.text +=
        difference.names.back() + ": " + shown(old, value) + " -> " + shown(value, old);
  }
  if (difference.fields > kMaxNamedFields)
    difference.text +=
        "; and " + std::to_string(difference.fields - kMaxNamedFields) + " more fields";
  return difference;
}

}  // namespace larder::store

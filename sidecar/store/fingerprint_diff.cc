#include "sidecar/store/fingerprint_diff.h"

#include <algorithm>
#include <map>
#include <set>

#include "shim/base/utf8.h"

namespace larder::store {
namespace {

constexpr std::size_t kMaxNamedFields = 8;
constexpr std::size_t kMaxValueChars = 80;
// The digest of all that may have no line of its own. It differs with every other field, and tells something only where none does.
constexpr std::string_view kDigest = "configuration";
constexpr std::string_view kFurther = "further_fields";  // of the configuration, which had no room

struct Fields {
  // A field that comes several times (one line a layer) has its lines joined.
  std::map<std::string, std::string, std::less<>> values;
  // The lines behind the digest: fields of the configuration that are not at their defaults.
  std::set<std::string, std::less<>> configured;
  bool cut = false;  // some fields of the configuration have no line

  // Stands for the value where this text has no line of the name.
  std::string_view absent(bool is_configured) const {
    if (!is_configured) return "(none)";
    return cut ? "(not shown)" : "(the default)";
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
    std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    std::string& joined = fields.values[std::string(name)];
    if (!joined.empty()) joined += ' ';
    joined += value;
    if (name == kFurther)
      fields.cut = true;
    else if (fields.values.contains(kDigest))
      fields.configured.emplace(name);
  }
  return fields;
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
  const auto complete = [](Fields& one, const Fields& other) {
    for (const auto& [name, value] : other.values)
      if (!one.values.contains(name)) one.values.emplace(name, one.absent(other.configured.contains(name)));
  };
  complete(new_fields, old_fields);
  complete(old_fields, new_fields);
  FingerprintDifference difference;
  const auto differs = [&](const auto& field) { return before[field.first] != field.second; };
  const bool by_digest_alone = std::ranges::count_if(after, differs) == 1;
  for (const auto& [name, value] : after) {
    const std::string& old = before[name];
    if (old == value || (name == kDigest && !by_digest_alone)) continue;
    if (++difference.fields > kMaxNamedFields) continue;
    difference.names.emplace_back(cut_text(name, kMaxValueChars));
    if (!difference.text.empty()) difference.text += "; ";
    difference.text += difference.names.back() + ": " + shown(old, value) + " -> " + shown(value, old);
  }
  if (difference.fields > kMaxNamedFields)
    difference.text += "; and " + std::to_string(difference.fields - kMaxNamedFields) + " more fields";
  return difference;
}

}  // namespace larder::store

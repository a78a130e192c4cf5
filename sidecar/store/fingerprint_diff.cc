#include "sidecar/store/fingerprint_diff.h"

#include <algorithm>
#include <map>

#include "shim/base/utf8.h"

namespace larder::store {
namespace {

constexpr std::size_t kMaxNamedFields = 8;
constexpr std::size_t kMaxValueChars = 80;
// The digest of settings without a field. It differs whenever another field differs, and is worth a
// mention only if no other field does.
constexpr std::string_view kDigest = "configuration";

// Parses the fields. Lines of a repeated field (one line a layer) are joined.
std::map<std::string, std::string, std::less<>> parse(std::string_view text) {
  std::map<std::string, std::string, std::less<>> fields;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::size_t colon = line.find(':');
    if (line.empty()) continue;
    const std::string_view name = line.substr(0, colon);
    std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    std::string& joined = fields[std::string(name)];
    if (!joined.empty()) joined += ' ';
    joined += value;
  }
  return fields;
}

// Cuts a long value to the part that differs.
std::string shown(const std::string& value, const std::string& other) {
  if (value.size() <= kMaxValueChars) return value;
  std::size_t same = 0;
  while (same < value.size() && same < other.size() && value[same] == other[same]) ++same;
  const std::size_t wanted = same > kMaxValueChars / 4 ? same - kMaxValueChars / 4 : 0;
  const std::size_t start = cut_text(value, wanted).size();  // at the end of a character
  const std::string part(cut_text(std::string_view(value).substr(start), kMaxValueChars));
  return (start == 0 ? "" : "...") + part + (start + part.size() < value.size() ? "..." : "");
}

}  // namespace

FingerprintDifference diff_fingerprints(std::string_view known, std::string_view fresh) {
  auto before = parse(known);
  auto after = parse(fresh);
  for (const auto& [name, value] : before) after.try_emplace(name, "(none)");
  for (const auto& [name, value] : after) before.try_emplace(name, "(none)");
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

#include "operator/api/injection_spec.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "operator/api/names.h"

namespace larder::api {
namespace {

constexpr std::array<std::string_view, 2> kUserIds{"Auto", "Platform"};
// 63 and 253 are the limits of Kubernetes for names and prefixes. Kubernetes bounds all annotations
// of an object by 256 KiB: 16 entries of 4 KiB leave room for those of others.
constexpr std::size_t kMostEntries = 16, kMostName = 63, kMostPrefix = 253, kMostAnnotation = 4096;
constexpr std::uint64_t kLeastPayload = 32ULL << 20;  // larderctl and the pages of one file

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
// The rule of Kubernetes for the value of a label and the name of a key: at most 63 bytes, letters
// or digits at both ends.
bool is_name(std::string_view text) {
  const auto inner = [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; };
  return !text.empty() && text.size() <= kMostName && is_alphanumeric(text.front()) &&
         is_alphanumeric(text.back()) && std::ranges::all_of(text, inner);
}
// A prefix is a DNS subdomain, for example "autoscaling.example.com".
bool is_prefix(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  };
  return !text.empty() && text.size() <= kMostPrefix && is_alphanumeric(text.front()) &&
         is_alphanumeric(text.back()) && std::ranges::all_of(text, allowed);
}

// As Kubernetes takes keys of labels and annotations: NAME or PREFIX/NAME.
bool is_key(std::string_view key) {
  const std::size_t slash = key.find('/');
  if (slash == std::string_view::npos) return is_name(key);
  return is_prefix(key.substr(0, slash)) && is_name(key.substr(slash + 1));
}

std::string wrong_entry(const std::string& key, const Object& value, bool label) {
  if (!is_key(key)) return "is no key: write NAME or PREFIX/NAME";
  // The injector and the reconcilers rely on keys of larder.dev. A pool that sets
  // larder.dev/injected would hide a pod from the injector.
  if (key.starts_with(std::string(kGroup) + "/")) return "is a key of Larder's own: write another";
  // YAML reads `true` and `1` without quotes as a boolean and a number. The API server refuses a
  // pod with such a label.
  if (!value.is_string()) return "must be text: write the value in quotes";
  const auto& text = value.get_ref<const std::string&>();
  if (label) return text.empty() || is_name(text) ? "" : "has a value that no label can have";
  return text.size() <= kMostAnnotation
             ? ""
             : "is longer than " + std::to_string(kMostAnnotation) + " bytes";
}

// One wrong entry refuses the whole pool. Otherwise the API server would refuse each pod with the
// entry, after the injection.
Object read_entries(SpecReader& reader, const std::string& path, bool label) {
  Object entries = reader.map(path);
  if (entries.size() > kMostEntries)
    reader.refuse(path, "has more than " + std::to_string(kMostEntries) + " entries");
  for (const auto& [key, value] : entries.items())
    if (const std::string why = wrong_entry(key, value, label); !why.empty())
      reader.refuse(path + "." + key, why);
  return entries;
}

}  // namespace

std::optional<WrongResource> wrong_payload(const InjectionSpec& injection) {
  return wrong_resource(injection.payload_resources, {kLeastPayload, "the copy"});
}

InjectionSpec read_injection(SpecReader& reader) {
  InjectionSpec injection;
  injection.user_ids =
      static_cast<UserIdSource>(reader.choice("spec.injection.userIds", kUserIds, "Auto"));
  injection.payload_resources = reader.map("spec.injection.payloadResources");
  if (const std::optional<WrongResource> wrong = wrong_payload(injection))
    reader.refuse("spec.injection.payloadResources." + wrong->path, wrong->why);
  injection.labels = read_entries(reader, "spec.injection.labels", true);
  injection.annotations = read_entries(reader, "spec.injection.annotations", false);
  return injection;
}

}  // namespace larder::api

#include "operator/reconcile/subset.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

namespace larder::reconcile {
namespace {

using api::Object;

// The API server drops empty maps and lists. {} and a missing field are equal.
bool is_none(const Object& value) {
  return value.is_null() || ((value.is_object() || value.is_array()) && value.empty());
}

// The merge keys of lists that server-side apply merges by key.
// Lists that are not here count as one value.
std::string_view key_of(std::string_view list) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kKeys{
      {{"containers", "name"},
       {"initContainers", "name"},
       {"volumes", "name"},
       {"env", "name"},
       {"imagePullSecrets", "name"},
       {"volumeMounts", "mountPath"},
       {"ownerReferences", "uid"},
       {"conditions", "type"},
       {"ports", "name"}}};
  const auto* found = std::ranges::find(kKeys, list, [](const auto& pair) { return pair.first; });
  return found == kKeys.end() ? std::string_view{} : found->second;
}

// A quantity as a rounded number.
// Quantities are compared as numbers: the API server writes 1000m back as 1.
std::optional<double> number_of(const Object& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  std::string_view text = value.get_ref<const std::string&>();
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  const std::string_view suffix(end, text.data() + text.size() - end);
  static constexpr std::array<std::pair<std::string_view, double>, 16> kSuffixes{{{"", 1},
                                                                                  {"n", 1e-9},
                                                                                  {"u", 1e-6},
                                                                                  {"m", 1e-3},
                                                                                  {"k", 1e3},
                                                                                  {"M", 1e6},
                                                                                  {"G", 1e9},
                                                                                  {"T", 1e12},
                                                                                  {"P", 1e15},
                                                                                  {"E", 1e18},
                                                                                  {"Ki", 1024},
                                                                                  {"Mi", 0x1p20},
                                                                                  {"Gi", 0x1p30},
                                                                                  {"Ti", 0x1p40},
                                                                                  {"Pi", 0x1p50},
                                                                                  {"Ei", 0x1p60}}};
  const auto* found =
      std::ranges::find(kSuffixes, suffix, [](const auto& pair) { return pair.first; });
  return found == kSuffixes.end() ? std::nullopt : std::optional(number * found->second);
}

bool same_quantity(const Object& live, const Object& wanted) {
  // The API server writes 9.1Gi as 9771050598400m; the two numbers differ in the last bit.
  constexpr double kRounding = 1e-14;
  const std::optional<double> a = number_of(live), b = number_of(wanted);
  return a && b && std::abs(*a - *b) <= kRounding * std::max(std::abs(*a), std::abs(*b));
}

class Comparison {
 public:
  std::optional<std::string> compare(const Object& live, const Object& wanted,
                                     const std::string& path, std::string_view name) {
    // Only wanted fields are compared. Fields that the API server or other managers add are no
    // difference.
    if (is_none(wanted) && is_none(live)) return std::nullopt;
    if (wanted.is_object() && live.is_object()) return of_maps(live, wanted, path, name);
    if (wanted.is_array() && live.is_array()) return of_lists(live, wanted, path, name);
    const bool quantity =
        // Outside of these fields, "1" and "1.0" are different texts and stay different.
        in_quantities_ > 0 || name == "sizeLimit" || name == "storage" || name == "divisor";
    if (live == wanted || (quantity && same_quantity(live, wanted))) return std::nullopt;
    return path;
  }

 private:
  std::optional<std::string> of_maps(const Object& live, const Object& wanted,
                                     const std::string& path, std::string_view name) {
    static const Object kNothing;
    const bool quantities = name == "limits" || name == "requests";
    in_quantities_ += quantities ? 1 : 0;
    std::optional<std::string> difference;
    for (const auto& [key, value] : wanted.items()) {
      const auto found = live.find(key);
      difference = compare(found == live.end() ? kNothing : *found, value,
                           path.empty() ? key : path + "." + key, key);
      if (difference) break;
    }
    in_quantities_ -= quantities ? 1 : 0;
    return difference;
  }

  std::optional<std::string> of_lists(const Object& live, const Object& wanted,
                                      const std::string& path, std::string_view name) {
    const std::string key(key_of(name));
    const auto has_key = [&](const Object& item) {
      return item.is_object() && item.contains(key) && item[key].is_string();
    };
    // Items without the key, e.g. ports without names, are compared by their place.
    if (key.empty() || !std::ranges::all_of(wanted, has_key)) return whole(live, wanted, path);
    for (const Object& item : wanted) {
      const auto same = std::ranges::find_if(
          live, [&](const Object& other) { return has_key(other) && other[key] == item[key]; });
      const std::string at = path + "[" + item[key].get_ref<const std::string&>() + "]";
      if (same == live.end()) return at;
      if (std::optional<std::string> difference = compare(*same, item, at, "")) return difference;
    }
    return std::nullopt;
  }

  // One value, whose items may have got defaults.
  std::optional<std::string> whole(const Object& live, const Object& wanted,
                                   const std::string& path) {
    // A list with more items has an item of another manager. An atomic list belongs to one manager
    // as a whole.
    if (live.size() != wanted.size()) return path;
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (auto difference = compare(live[i], wanted[i], path + "[" + std::to_string(i) + "]", ""))
        return difference;
    return std::nullopt;
  }

  int in_quantities_ = 0;
};

}  // namespace

std::optional<std::string> first_difference(const Object& live, const Object& wanted) {
  return Comparison().compare(live, wanted, "", "");
}

}  // namespace larder::reconcile

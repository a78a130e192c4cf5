#include "sidecar/ctl/lmcache/lmcache_values.h"

#include <array>
#include <cmath>

#include "sidecar/config/values.h"

namespace larder::ctl {
namespace {

constexpr double kMebibytesPerGib = 1024;  // LMCache's "GB" is 2^30 bytes
constexpr double kMostGib = 1 << 20;  // keeps the product exact; the limit of larderd is far below

}  // namespace

Status refuse(const LmcacheSetting& setting, const std::string& why) {
  return {Code::kInvalidArgument,
          // Callers of refuse() pass no setting that may hold a password.
          setting.where + ": " + setting.key + " '" + base::printable(setting.text) + "' " + why};
}

// YAML's empty values, and Python's None.
bool is_nothing(std::string_view text) {
  static constexpr std::array<std::string_view, 6> kNothing{"", "null", "none", "~", "[]", "{}"};
  return is_one_of(text, kNothing);
}

Result<bool> read_bool(const LmcacheSetting& setting) {
  // The words of YAML 1.1, and 1 and 0 as in variables.
  static constexpr std::array<std::string_view, 4> kTrue{"true", "1", "yes", "on"};
  static constexpr std::array<std::string_view, 4> kFalse{"false", "0", "no", "off"};
  if (is_one_of(setting.text, kTrue)) return true;
  if (is_one_of(setting.text, kFalse)) return false;
  return refuse(setting, "is neither true nor false");
}

Result<std::string> read_gib(const LmcacheSetting& setting) {
  double gib = 0;
  // A NaN or a negative size would wrap in the conversion to an integer.
  if (!config::parse_number(setting.text, gib) || !std::isfinite(gib) || gib < 0 || gib > kMostGib)
    return refuse(setting, "is no number of GiB");
  // Rounded up, so that the engine never gets less memory than before.
  return config::print_size(static_cast<std::uint64_t>(std::ceil(gib * kMebibytesPerGib)) << 20);
}

}  // namespace larder::ctl

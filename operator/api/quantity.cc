// Quantities, parsed as by k8s.io/apimachinery/pkg/api/resource, except that negative ones fail.
#include <array>
#include <charconv>
#include <limits>

#include "operator/api/object.h"

namespace larder::api {
namespace {

using Wide = unsigned __int128;

// The suffix behind the digits: a power of two or of ten.
struct Suffix {
  std::string_view name;
  int binary, decimal;
};
constexpr std::array<Suffix, 15> kSuffixes{{{"", 0, 0},
                                            {"n", 0, -9},
                                            {"u", 0, -6},
                                            {"m", 0, -3},
                                            {"k", 0, 3},
                                            {"M", 0, 6},
                                            {"G", 0, 9},
                                            {"T", 0, 12},
                                            {"P", 0, 15},
                                            {"E", 0, 18},
                                            {"Ki", 10, 0},
                                            {"Mi", 20, 0},
                                            {"Gi", 30, 0},
                                            {"Ti", 40, 0},
                                            {"Pi", 50, 0}}};
constexpr Suffix kExbi{"Ei", 60, 0};
constexpr int kMostDigits = 20;  // with a power of two behind them: below 2^127
// Bounds the loops of scaled(). "1e-1000000000" would otherwise run for seconds.
constexpr int kMostExponent = 100;  // of ten: beyond, too large or zero
// Of the answer, as in Kubernetes.
constexpr Wide kMost = Wide{std::numeric_limits<std::int64_t>::max()};

Status refused(std::string_view text, std::string_view why) {
  return {Code::kInvalidArgument, "'" + std::string(text.substr(0, 40)) + "' " + std::string(why)};
}

Status no_quantity(std::string_view text) {
  return refused(text, "is no size: write a number with Ki, Mi, Gi or Ti, e.g. 8Gi or 1.5Gi");
}

// "e9", "E-3".
// Go's ParseInt takes "+5" but not "+-5", and std::from_chars takes no plus at all.
std::optional<int> exponent_of(std::string_view text) {
  if (text.size() < 2 || (text[0] != 'e' && text[0] != 'E')) return std::nullopt;
  text.remove_prefix(1);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  int exponent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return exponent;
}

// "E" has two readings: 5E has a suffix (10^18), 5E3 has an exponent. 5Ei has the suffix of 2^60.
std::optional<Suffix> suffix_of(std::string_view text) {
  if (text == kExbi.name) return kExbi;
  for (const Suffix& suffix : kSuffixes)
    if (suffix.name == text) return suffix;
  const std::optional<int> exponent = exponent_of(text);
  if (!exponent || *exponent > kMostExponent || *exponent < -kMostExponent) return std::nullopt;
  return Suffix{text, 0, *exponent};
}

// Digits with at most one point; the value is number / 10^fraction. `length`: characters in the
// text.
struct Digits {
  Wide number = 0;
  int fraction = 0;
  std::size_t length = 0;
};

std::optional<Digits> digits_of(std::string_view text, bool& too_many) {
  Digits digits;
  int count = 0, significant = 0;
  bool point = false;
  for (; digits.length < text.size(); ++digits.length) {
    const char c = text[digits.length];
    if (c == '.' && !point) {
      point = true;
      continue;
    }
    if (c < '0' || c > '9') break;
    // Leading zeros are no significant digits: Kubernetes takes 0000000000000000000000001Gi.
    ++count;
    if (digits.number != 0 || c != '0') ++significant;
    if (significant > kMostDigits) return too_many = true, std::nullopt;
    digits.number = digits.number * 10 + static_cast<unsigned>(c - '0');
    digits.fraction += point ? 1 : 0;
  }
  return count == 0 ? std::nullopt : std::optional(digits);
}

// number * 10^exponent, rounded up. Empty: above the largest quantity of Kubernetes.
// Kubernetes rounds quantities up as well: 0.5 bytes are 1 byte, and 1n is 1.
std::optional<Wide> scaled(Wide number, int exponent) {
  bool rest = false;
  for (; exponent < 0 && number != 0; ++exponent) {
    rest = rest || number % 10 != 0;
    number /= 10;
  }
  for (; exponent > 0 && number != 0; --exponent) {
    // Checked before the multiplication: kMost times ten is far below 2^127, so no product
    // overflows.
    if (number > kMost) return std::nullopt;
    number *= 10;
  }
  number += rest ? 1 : 0;
  return number > kMost ? std::nullopt : std::optional(number);
}

// The quantity in units of 10^-`decimals`.
Result<std::uint64_t> in_units(std::string_view text, int decimals) {
  std::string_view rest = text;
  bool too_many = false;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  const std::optional<Digits> digits = digits_of(rest, too_many);
  if (too_many) return refused(text, "has too many digits");
  const std::optional<Suffix> suffix =
      digits ? suffix_of(rest.substr(digits->length)) : std::nullopt;
  if (!suffix) return no_quantity(text);
  // "-0" is zero in Kubernetes and stays allowed.
  if (negative && digits->number != 0) return refused(text, "is negative");
  const std::optional<Wide> sum =
      scaled(digits->number << suffix->binary, suffix->decimal - digits->fraction + decimals);
  if (!sum) return refused(text, "is too large");
  return static_cast<std::uint64_t>(*sum);
}

}  // namespace

// YAML turns `size: 8` into a number. The API server accepts numbers in the place of quantities
// (x-kubernetes-int-or-string).
std::string quantity_text(const Object& value) {
  return value.is_string() ? value.get<std::string>() : value.is_number() ? value.dump() : "";
}

Result<std::uint64_t> quantity_bytes(std::string_view text) {
  return in_units(text, 0);
}

Result<std::uint64_t> quantity_milli(std::string_view text) {
  constexpr int kDecimals = 3;
  return in_units(text, kDecimals);
}

}  // namespace larder::api

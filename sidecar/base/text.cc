#include "sidecar/base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "shim/base/utf8.h"

namespace larder::base {
namespace {

// 64 bytes hold every 64-bit count with its unit. The function snprintf() cuts a longer text.
std::string decimal(double value, const char* unit) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.1f%s", value, unit);
  return text.data();
}

}  // namespace

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, 1, ',');
  return text;
}

std::string plural(std::uint64_t count, const char* one) {
  return grouped(count) + " " + one + (count == 1 ? "" : "s");
}

std::string decimal_text(double number) {
  return decimal(number, "");
}

// Powers of 1024, as in the configuration: "5GiB" of memory.size appears as "5.0 GiB".
std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 4> kUnits{" TiB", " GiB", " MiB", " KiB"};
  for (std::size_t i = 0; i < kUnits.size(); ++i) {
    const int shift = 40 - 10 * static_cast<int>(i);
    // ldexp() keeps the fraction that an integer shift would lose.
    if (bytes >> shift != 0)
      return decimal(std::ldexp(static_cast<double>(bytes), -shift), kUnits[i]);
  }
  return std::to_string(bytes) + " bytes";
}

std::string seconds_text(double seconds) {
  constexpr double kMost = 1e12;  // larderd reports less; another process on its socket may not
  // A comparison with NaN is false, so NaN becomes 0 and never reaches a conversion to an integer.
  seconds = seconds > 0 ? std::min(seconds, kMost) : 0;
  if (seconds < 1) return std::to_string(std::lround(seconds * 1000)) + " ms";
  if (seconds < 120) return decimal(seconds, " s");
  const auto minutes = static_cast<std::uint64_t>(seconds / 60);
  if (minutes < 120) return std::to_string(minutes) + " min";
  return grouped(minutes / 60) + " h " + std::to_string(minutes % 60) + " min";
}

// "-" without requests: "0.0%" would look like a cache that always misses.
std::string percent_text(double part, double whole) {
  return whole > 0 ? decimal(100 * part / whole, "%") : "-";
}

std::string rate_text(double per_second) {
  constexpr double kWhole = 100;
  return (per_second < kWhole ? decimal_text(per_second)
                              : grouped(static_cast<std::uint64_t>(std::llround(per_second)))) +
         "/s";
}

std::string byte_rate_text(double per_second) {
  return bytes_text(static_cast<std::uint64_t>(std::llround(per_second))) + "/s";
}

std::string bar(double part, double whole, int width) {
  // The values come from another process: a part above its whole must not make a longer bar.
  const double share = whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0;
  const auto full = static_cast<std::size_t>(std::lround(share * width));
  return std::string("[") + std::string(full, '#') +
         std::string(static_cast<std::size_t>(width) - full, '.') + "]";
}

std::string printable(std::string_view text) {
  return clean_text(text);
}

// Counts every byte but continuation bytes (10xxxxxx): one for each UTF-8 character.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

// Cuts between characters: half a character would damage the terminal line. A bad byte counts as
// one.
std::string_view cut(std::string_view text, std::size_t most) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t bytes = std::max<std::size_t>(utf8_bytes(text.substr(at)), 1);
    if (most-- == 0) break;
    at += bytes;
  }
  return text.substr(0, at);
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// The dots need three places. A narrower column keeps the whole text.
std::string column(std::string_view text, std::size_t wide) {
  if (width(text) > wide && wide > 3) return std::string(cut(text, wide - 3)) + "...";
  return std::string(text) + std::string(wide - std::min(wide, width(text)), ' ');
}

}  // namespace larder::base

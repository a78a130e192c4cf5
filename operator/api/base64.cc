#include "operator/api/base64.h"

#include <cstdint>

namespace larder::api {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

// RFC 4648, section 4, with padding and without line breaks: the form of Secret.data and of patches
// in an AdmissionReview.
std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view part = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    // Missing bytes of the last group count as zero. The group of "M" (4d) is TQ==, and that of
    // "Ma" is TWE=.
    for (std::size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < part.size() ? static_cast<std::uint8_t>(part[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      text += i <= part.size() ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return {};
  // "=" is allowed at the end only, and at most twice: any other "=" is no digit and fails below.
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == kDigits.npos) return {};
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  // Six left bits would be a digit without a byte. Left bits that are not zero mean a second text
  // for the same bytes, which RFC 4648, section 3.5, allows a decoder to refuse.
  if (count >= 6 || (bits & ((1U << count) - 1)) != 0) return {};
  return bytes;
}

}  // namespace larder::api

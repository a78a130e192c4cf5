#include "sidecar/http/framing.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

namespace larder::http {
namespace {

Framing refused(int status, std::string_view why) {
  return {Framing::State::kRefused, 0, status, why};
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

struct BodyLength {
  Framing refusal;
  std::optional<std::size_t> bytes;
};

// What the headers say of the body: the lines of `head` after the request line.
BodyLength body_length(std::string_view head) {
  BodyLength result;
  for (std::size_t at = head.find("\r\n"); at != std::string_view::npos && !result.refusal.http_status;) {
    const std::size_t begin = at + 2;
    at = head.find("\r\n", begin);
    const std::string_view line = head.substr(begin, at == std::string_view::npos ? at : at - begin);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (equal_ignoring_case(name, "transfer-encoding")) result.refusal = refused(411, "a body needs Content-Length");
    if (equal_ignoring_case(name, "content-encoding")) result.refusal = refused(415, "compressed bodies are not taken");
    if (!equal_ignoring_case(name, "content-length")) continue;
    std::size_t bytes = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), bytes);
    if (value.empty() || error == std::errc::invalid_argument || end != value.data() + value.size() || result.bytes)
      result.refusal = refused(400, "Content-Length is not one number");
    else if (error != std::errc())
      result.refusal = refused(413, "the body is too large");
    result.bytes = bytes;
  }
  return result;
}

}  // namespace

Framing find_request(std::string_view received, const Limits& limits) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  const std::size_t end = received.substr(0, limits.head_bytes).find(kEnd);
  if (end == std::string_view::npos) {
    if (received.size() >= limits.head_bytes) return refused(431, "the head of the request is too large");
    return {};
  }
  const std::size_t head_bytes = end + kEnd.size();
  const BodyLength body = body_length(received.substr(0, end));
  if (body.refusal.http_status != 0) return body.refusal;
  const std::size_t body_bytes = body.bytes.value_or(0);
  if (body_bytes > limits.body_bytes) return refused(413, "the body is too large");
  if (received.size() - head_bytes < body_bytes) return {};
  return {Framing::State::kWhole, head_bytes + body_bytes, 0, {}};
}

}  // namespace larder::http

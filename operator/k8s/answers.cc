#include "operator/k8s/answers.h"

#include <algorithm>
#include <charconv>

namespace larder::k8s {
namespace {

constexpr std::size_t kMostMessageBytes = 1024;  // an admission webhook may answer a book

// 4xx: the request is wrong, and a repetition does not help. Everything else may pass. 409 is a
// conflict of versions, or an object of the name. 410: the version of a list or watch is too old.
Code code_of(int http_status, const std::string& reason) {
  switch (http_status) {
    case 404: return Code::kNotFound;
    case 409: return reason == "AlreadyExists" ? Code::kAlreadyExists : Code::kFailedPrecondition;
    case 410: return Code::kOutOfRange;
    case 401:
    case 403: return Code::kPermissionDenied;
    case 405:
    case 406: return Code::kUnsupported;
    case 429: return Code::kUnavailable;
    default: break;
  }
  return http_status >= 400 && http_status < 500 ? Code::kInvalidArgument : Code::kUnavailable;
}

// The caller names the call ("apply DaemonSet ml/a"), since the API server's own message often
// lacks the object.
Status said(int http_status, const std::string& reason, std::string message,
            const std::string& what) {
  if (message.size() > kMostMessageBytes) message = message.substr(0, kMostMessageBytes) + "...";
  return {code_of(http_status, reason),
          what + ": " + message + " (" + std::to_string(http_status) + ")"};
}

}  // namespace

Status status_of(const api::Object& status, const std::string& what) {
  // An ERROR event of a watch brings its code in the body. The code of a foreign server may be any
  // number.
  const auto http_status =
      static_cast<int>(std::clamp<std::int64_t>(api::number_at(status, "code", 500), 100, 599));
  return said(http_status, api::text_at(status, "reason"), api::text_at(status, "message"), what);
}

Status status_of(const Response& response, const std::string& what) {
  if (response.status >= 200 && response.status < 300) return {};
  const Result<api::Object> body = api::parse_json(response.body);
  // Proxies and load balancers answer in HTML or plain text. Such a body becomes the message,
  // within kMostMessageBytes.
  const bool known = body.ok() && api::text_at(*body, "kind") == "Status";
  if (known)
    return said(response.status, api::text_at(*body, "reason"), api::text_at(*body, "message"),
                what);
  return said(response.status, "", response.body.empty() ? "no reason given" : response.body, what);
}

std::optional<std::chrono::milliseconds> retry_after(std::string_view header) {
  // A wrong header must not stop the operator for a day.
  constexpr std::uint32_t kMostSeconds = 600;
  std::uint32_t seconds = 0;
  // Retry-After may also be an HTTP date. The API server sends seconds only, so a date counts as no
  // header.
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), seconds);
  if (error != std::errc() || end != header.data() + header.size()) return std::nullopt;
  return std::chrono::seconds(std::min(seconds, kMostSeconds));
}

// 500 is here because an API server answers 500 when its etcd does not answer (F-236).
bool is_passing(int http_status) {
  return http_status == 429 || http_status == 500 || http_status == 502 || http_status == 503 ||
         http_status == 504;
}

std::chrono::milliseconds pause_before(int tries, std::uint32_t random) {
  constexpr std::uint32_t kFirstMs = 100, kMostMs = 5'000;
  // 100, 200, 400 ms and so on. The clamp keeps the shift within 32 bits.
  const std::uint32_t whole = std::min(kMostMs, kFirstMs << std::clamp(tries - 1, 0, 10));
  // By chance between half and whole: replicas that failed together must not return together.
  return std::chrono::milliseconds(whole / 2 + random % (whole / 2 + 1));
}

}  // namespace larder::k8s

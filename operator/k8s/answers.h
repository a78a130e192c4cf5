// The meaning of an answer of the API server. Pure; thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "operator/api/object.h"
#include "operator/k8s/transport.h"
#include "shim/base/status.h"

namespace larder::k8s {

// Ok for 2xx. Otherwise a code that tells the caller what to do, with the server's message behind
// `what` ("apply DaemonSet ml/a"):
// 404 kNotFound; 409 AlreadyExists kAlreadyExists; other 409 kFailedPrecondition; 410 kOutOfRange;
// 401 and 403 kPermissionDenied; 405 and 406 kUnsupported; 429 and 5xx kUnavailable; other 4xx
// kInvalidArgument.
Status status_of(const Response& response, const std::string& what);
// The status of an object of kind Status, which a watch sends.
Status status_of(const api::Object& status, const std::string& what);

// Retry-After in seconds, at most 10 minutes. Empty: missing or unreadable (the API server sends no
// dates).
std::optional<std::chrono::milliseconds> retry_after(std::string_view header);

// Whether a repeat of the request may succeed: 429, 500, 502, 503, 504.
bool is_passing(int http_status);

// The pause before try `tries` + 1: 100 ms, doubled up to 5 s, half of it random. `random`: any
// number.
std::chrono::milliseconds pause_before(int tries, std::uint32_t random);

}  // namespace larder::k8s

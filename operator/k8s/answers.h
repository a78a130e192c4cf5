// What an answer of the API server means. Pure; thread-safe.
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

// Ok for 2xx. Else a code that says what to do, and the server's own words behind `what` ("apply DaemonSet ml/a"):
// 404 kNotFound; 409 AlreadyExists kAlreadyExists; other 409 kFailedPrecondition; 410 kOutOfRange; 401 and 403 kPermissionDenied; 405 and
// 406 kUnsupported; 429 and 5xx kUnavailable; other 4xx kInvalidArgument.
Status status_of(const Response& response, const std::string& what);
// The same of an object of kind Status, as it stands in watches.
Status status_of(const api::Object& status, const std::string& what);

// Retry-After in seconds (the API server sends no dates); nothing: there is none that can be read. At most 10 minutes.
std::optional<std::chrono::milliseconds> retry_after(std::string_view header);

// Whether the same request may be answered otherwise in a while: 429, 500, 502, 503, 504.
bool is_passing(int http_status);

// The wait before try `tries` + 1: 100 ms doubled up to 5 s, half of it by chance. `random`: any number.
std::chrono::milliseconds pause_before(int tries, std::uint32_t random);

}  // namespace larder::k8s

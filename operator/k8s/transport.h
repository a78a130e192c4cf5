// Transport: one HTTP request to the API server and its answer, bounded in time and bytes.
// HttpClient adds retries and JSON. CurlTransport implements the interface; tests have a script.
//
// Thread-safe: requests of several threads run in parallel.
#pragma once

#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include "operator/api/object.h"
#include "operator/k8s/fence.h"
#include "shim/base/status.h"

namespace larder::k8s {

struct Request {
  std::string method = "GET";
  std::string path = {};          // with the query: "/api/v1/pods?limit=100"
  std::string content_type = {};  // of the body; empty: no body
  std::string body = {};
  std::chrono::milliseconds timeout{30'000};  // for request and answer
  std::chrono::milliseconds silence{0};       // ends a stream without bytes for this time; 0: never
  std::stop_token stop = {};                  // ends the request at once
  const Fence* fence = nullptr;               // no byte is sent after the fence comes down
};

struct Response {
  int status = 0;
  std::string body;
  std::string retry_after;  // the header, unchanged
};

// The most bytes of header fields, and of an error's body in place of a stream.
inline constexpr std::size_t kMostHeaderBytes = 64u << 10;
inline constexpr std::size_t kMostErrorBytes = 64u << 10;

class Transport {
 public:
  virtual ~Transport() = default;

  // Returns any answer of the server, errors included. kUnavailable: no answer (not reached, cut,
  // stopped). kDeadlineExceeded: no answer in time. kOutOfRange: an answer above api::kMostBytes or
  // header fields above kMostHeaderBytes. kPermissionDenied: an untrusted certificate of the
  // server, or unreadable credentials. kFailedPrecondition: the fence is down.
  virtual Result<Response> exchange(const Request& request) = 0;

  // Passes the body of a 200 to `on_bytes` until the body ends, `on_bytes` returns false (ok), or
  // `silence` has passed (ok). For other answers, returns the body.
  virtual Result<Response> stream(const Request& request,
                                  const std::function<bool(std::string_view)>& on_bytes) = 0;
};

}  // namespace larder::k8s

// Transport: one HTTP request to the API server and its answer, bounded in time and bytes. No retries, no JSON: those are
// HttpClient's. The real one is CurlTransport; tests script one.
//
// Thread-safe: requests of several threads run side by side.
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
  std::string path = {};          // with its query, "/api/v1/pods?limit=100"
  std::string content_type = {};  // of the body; empty: there is none
  std::string body = {};
  std::chrono::milliseconds timeout{30'000};  // for all of it
  std::chrono::milliseconds silence{0};       // a stream on which nothing comes for so long ends; 0: never
  std::stop_token stop = {};                  // ends it at once
  const Fence* fence = nullptr;               // where given, nothing is sent once it is down
};

struct Response {
  int status = 0;
  std::string body;
  std::string retry_after;  // the header as it came
};

// The most bytes of header fields and of an error's body beside a stream.
inline constexpr std::size_t kMostHeaderBytes = 64u << 10;
inline constexpr std::size_t kMostErrorBytes = 64u << 10;

class Transport {
 public:
  virtual ~Transport() = default;

  // Whatever the server answered, errors included. kUnavailable: no answer (not reached, cut, stopped); kDeadlineExceeded;
  // kOutOfRange: an answer over api::kMostBytes, or header fields over kMostHeaderBytes; kPermissionDenied: the server's certificate
  // is not trusted, or credentials cannot be read; kFailedPrecondition: the fence is down.
  virtual Result<Response> exchange(const Request& request) = 0;

  // Hands on the body of a 200 as it comes, until it ends, `on_bytes` says false (ok) or `silence` has passed (ok); of another answer
  // it returns the body.
  virtual Result<Response> stream(const Request& request, const std::function<bool(std::string_view)>& on_bytes) = 0;
};

}  // namespace larder::k8s

// Framing: where one HTTP request ends in the bytes received so far, or why it is refused. Pure; thread-safe.
//
// It looks at lengths alone, so that cpp-httplib, which has no limits of its own, is given whole and bounded requests only.
// Bodies need a Content-Length: chunked and compressed bodies are refused, no verb needs them.
#pragma once

#include <cstddef>
#include <string_view>

namespace larder::http {

struct Limits {
  std::size_t head_bytes = 16 * 1024;
  std::size_t body_bytes = 48 * 1024;
  std::size_t connections = 64;  // of one endpoint; one more closes the oldest
  unsigned deadline_ms = 5000;   // from accept to the last byte of the answer
};

struct Framing {
  enum class State { kMore, kWhole, kRefused };
  State state = State::kMore;
  std::size_t request_bytes = 0;  // when whole
  int http_status = 0;            // when refused
  std::string_view why;           // when refused
};

Framing find_request(std::string_view received, const Limits& limits);

}  // namespace larder::http

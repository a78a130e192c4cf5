// Framing: finds the end of one HTTP request in the arriving bytes, or the reason to refuse the
// request. Pure; owned by one thread.
//
// The reader looks at lengths and enforces every limit, so the parser behind gets whole and bounded
// requests. Compressed bodies are refused. Chunked bodies are refused unless Limits::chunked is
// set: then the chunks are joined. Host is checked as in RFC 9112 (3.2). 400: HTTP/1.1 without
// Host, a second Host, a malformed Host. 421: the name of another server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sidecar/http/hosts.h"

namespace larder::http {

struct Limits {
  std::size_t head_bytes = 16 * 1024;
  std::size_t body_bytes = 48 * 1024;
  bool chunked = false;  // chunked bodies are allowed
  // Connections of an endpoint in kSilent; one more closes one of the class.
  std::size_t silent = 64;
  std::size_t new_clients = 64;  // the same for kNew
  std::size_t earned = 64;       // the same for kEarned
  std::size_t held_bytes =
      32u
      // Of all requests and answers of an endpoint; beyond, the largest connection is closed.
      << 20;
  unsigned requests = 1;  // of one connection
  // From the first byte of a request (the first request: from accept) to the last byte of the
  // answer.
  unsigned deadline_ms = 5000;
  unsigned idle_ms = 0;  // between the requests of a connection
};

struct Request {
  std::string bytes;           // head, then body
  std::size_t head_bytes = 0;  // with the empty line
  bool keep_alive = false;     // the client may send another request on this connection
  std::string peer;  // the address of the client without the port; "local" from a Unix socket

  // Words of the request line; empty if missing.
  std::string_view method() const;
  std::string_view path() const;  // without the query
  std::string_view body() const { return std::string_view(bytes).substr(head_bytes); }
};

struct Refusal {
  int http_status = 0;
  std::string_view why;  // a constant
};

class RequestReader {
 public:
  enum class State { kMore, kWhole, kRefused };

  // `limits` and `hosts` outlive the reader. A request for a name outside of `hosts` is refused
  // once its head is read.
  RequestReader(const Limits& limits, const Hosts& hosts) : limits_(limits), hosts_(hosts) {}

  // Takes the bytes of this request from the front of `bytes`.
  // REQUIRES: the request is neither whole nor refused.
  State take(std::string_view& bytes);

  bool begun() const { return !request_.bytes.empty(); }
  std::size_t held_bytes() const { return request_.bytes.size(); }
  const Refusal& refusal() const { return refusal_; }
  // Returns the request and makes the reader ready for the next one. REQUIRES: the request is
  // whole.
  Request release();

 private:
  enum class Part { kHead, kBody, kChunkSize, kChunk, kChunkEnd, kTrailer, kEnd };

  void take_head(std::string_view& bytes);
  void read_head();
  void take_body(std::string_view& bytes, Part next);
  void take_line(std::string_view& bytes);
  void read_chunk_size();
  void refuse(int http_status, std::string_view why) { refusal_ = {http_status, why}; }

  const Limits& limits_;
  const Hosts& hosts_;
  Part part_ = Part::kHead;
  Request request_;
  Refusal refusal_;
  std::size_t left_ = 0;  // missing bytes of the body or the chunk
  std::string line_;      // the received part of a line of a chunked body
  std::size_t trailer_bytes_ = 0;
};

}  // namespace larder::http

// Framing: where one HTTP request ends in the bytes as they arrive, or why it is refused. Pure; owned by one thread.
//
// It looks at lengths alone and holds every limit itself, so that whoever parses the request is given a whole and bounded one.
// Compressed bodies are refused; chunked ones are, unless the limits say otherwise: then their chunks are joined. Host is checked here
// as RFC 9112 (3.2) has it: HTTP/1.1 without one, more than one and a malformed one are 400; one of another server is 421.
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
  bool chunked = false;                // bodies may come in chunks
  std::size_t silent = 64;             // connections of one endpoint whose stream has not begun; one more closes one of them
  std::size_t strangers = 64;          // the same of those that have not earned an answer yet
  std::size_t earned = 64;             // and of those that have
  std::size_t held_bytes = 32u << 20;  // of all requests and answers of an endpoint; beyond it the largest one goes
  unsigned requests = 1;               // that a connection may carry
  unsigned deadline_ms = 5000;  // of a request: from its first byte (the first one: from accept) to the last byte of its answer
  unsigned idle_ms = 0;         // between the requests of a connection
};

struct Request {
  std::string bytes;           // head, then body
  std::size_t head_bytes = 0;  // with the empty line
  bool keep_alive = false;     // the client may send another one on this connection
  std::string peer;            // the address it came from, without its port; "local" from a Unix socket

  // Of the request line; empty where it has none.
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

  // Both outlive the reader. A request for a name that is none of `hosts` is refused by its head.
  RequestReader(const Limits& limits, const Hosts& hosts) : limits_(limits), hosts_(hosts) {}

  // Takes from the front of `bytes` what belongs to this request. Not to be called again once it is whole or refused.
  State take(std::string_view& bytes);

  bool begun() const { return !request_.bytes.empty(); }
  std::size_t held_bytes() const { return request_.bytes.size(); }
  const Refusal& refusal() const { return refusal_; }
  // REQUIRES: whole. The reader is ready for the next one.
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
  std::size_t left_ = 0;  // of the body or the chunk
  std::string line_;      // of the chunked body's own lines, as far as it is here
  std::size_t trailer_bytes_ = 0;
};

}  // namespace larder::http

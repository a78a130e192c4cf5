#include "sidecar/http/framing.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <utility>

namespace larder::http {
namespace {

constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::size_t kMostChunkLine = 128;  // a size with extensions, which no known client uses

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// Optional white space around a value is blanks and tabs only (RFC 9110, 5.6.3).
std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// Word number `which` of the request line. Called with the head alone, so the body never counts.
std::string_view word(std::string_view bytes, int which) {
  std::string_view line = bytes.substr(0, bytes.find("\r\n"));
  for (; which > 0; --which)
    line.remove_prefix(
        std::min(line.size(), line.find(' ') == line.npos ? line.size() : line.find(' ') + 1));
  return line.substr(0, line.find(' '));
}

// The headers about the body and the connection.
struct Headers {
  Refusal refusal;
  std::optional<std::size_t> length;
  bool chunked = false;
  bool close = false;
  std::optional<std::string_view> host;
  Asked asked;
};

void read_host(Headers& headers, std::string_view value) {
  // Two values: this server and a proxy could each use another one (RFC 9112, 3.2).
  if (headers.host) headers.refusal = {400, "more than one Host"};
  headers.host = headers.asked.host = value;
}

void read_length(Headers& headers, std::string_view value) {
  std::size_t bytes = 0;
  // from_chars takes neither a sign nor blanks, so "+5" and "5, 5" are refused.
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), bytes);
  if (value.empty() || error == std::errc::invalid_argument || end != value.data() + value.size() ||
      headers.length)
    headers.refusal = {400, "Content-Length is not one number"};
  else if (error != std::errc())
    headers.refusal = {413, "the body is too large"};
  headers.length = bytes;
}

void read_header(Headers& headers, std::string_view name, std::string_view value,
                 bool chunked_taken) {
  // A small compressed body could unpack to gigabytes.
  if (equal_ignoring_case(name, "content-encoding"))
    headers.refusal = {415, "compressed bodies are not taken"};
  if (equal_ignoring_case(name, "connection")) headers.close |= equal_ignoring_case(value, "close");
  if (equal_ignoring_case(name, "content-length")) read_length(headers, value);
  if (equal_ignoring_case(name, "host")) read_host(headers, value);
  if (equal_ignoring_case(name, "accept-encoding")) headers.asked.accept_encoding = value;
  if (equal_ignoring_case(name, "x-forwarded-uri")) headers.asked.forwarded_uri = value;
  if (!equal_ignoring_case(name, "transfer-encoding")) return;
  if (!chunked_taken)
    headers.refusal = {411, "a body needs Content-Length"};
  else if (!equal_ignoring_case(value, "chunked") || headers.chunked)
    headers.refusal = {400, "Transfer-Encoding is not one \"chunked\""};
  headers.chunked = true;
}

// The lines of `head` after the request line.
Headers read_headers(std::string_view head, bool chunked_taken) {
  Headers headers;
  for (std::size_t at = head.find("\r\n");
       at != std::string_view::npos && headers.refusal.http_status == 0;) {
    const std::size_t begin = at + 2;
    at = head.find("\r\n", begin);
    const std::string_view line =
        head.substr(begin, at == std::string_view::npos ? at : at - begin);
    const std::size_t colon = line.find(':');
    // Only headers about lengths, connection and Host matter here. The parser behind reads the
    // rest.
    if (colon == std::string_view::npos) continue;
    read_header(headers, line.substr(0, colon), trimmed(line.substr(colon + 1)), chunked_taken);
  }
  // Two lengths: a proxy in between may have used the other length (request smuggling).
  if (headers.refusal.http_status == 0 && headers.chunked && headers.length)
    headers.refusal = {400, "Content-Length beside Transfer-Encoding"};
  return headers;
}

// HTTP/1.0 allows requests without Host. No browser speaks HTTP/1.0, so DNS rebinding stays
// impossible.
Refusal refusal_of_host(const Headers& headers, std::string_view version, const Hosts& hosts) {
  if (!headers.host) return version == "HTTP/1.0" ? Refusal() : Refusal{400, "no Host"};
  if (!host_of(*headers.host))
    return {400, "Host is neither a name nor an address, with a port or without"};
  if (hosts.answers(headers.asked)) return {};
  return {421,
          "Host is no name of this server: use its address or localhost (larderd knows further "
          "names by http.hosts)"};
}

}  // namespace

std::string_view Request::method() const {
  return word(std::string_view(bytes).substr(0, head_bytes), 0);
}
std::string_view Request::path() const {
  const std::string_view target = word(std::string_view(bytes).substr(0, head_bytes), 1);
  return target.substr(0, target.find('?'));
}

RequestReader::State RequestReader::take(std::string_view& bytes) {
  while (part_ != Part::kEnd && refusal_.http_status == 0 && !bytes.empty()) {
    switch (part_) {
      case Part::kHead: take_head(bytes); break;
      case Part::kBody: take_body(bytes, Part::kEnd); break;
      case Part::kChunk: take_body(bytes, Part::kChunkEnd); break;
      case Part::kChunkSize:
      case Part::kChunkEnd:
      case Part::kTrailer: take_line(bytes); break;
      case Part::kEnd: break;
    }
  }
  if (refusal_.http_status != 0) return State::kRefused;
  return part_ == Part::kEnd ? State::kWhole : State::kMore;
}

void RequestReader::take_head(std::string_view& bytes) {
  std::string& head = request_.bytes;
  const std::size_t had = head.size();
  // At most up to the limit: a client cannot make larderd store more than one head.
  head.append(bytes.substr(0, limits_.head_bytes - had));
  const std::size_t end =
      // The end may be split between two reads, so the search starts three bytes before the new
      // part.
      head.find(kHeadEnd, had < kHeadEnd.size() ? 0 : had - (kHeadEnd.size() - 1));
  if (end == std::string::npos) {
    bytes.remove_prefix(head.size() - had);
    if (head.size() >= limits_.head_bytes) refuse(431, "the head of the request is too large");
    return;
  }
  head.resize(end + kHeadEnd.size());
  bytes.remove_prefix(head.size() - had);
  read_head();
}

void RequestReader::read_head() {
  request_.head_bytes = request_.bytes.size();
  const std::string_view head =
      std::string_view(request_.bytes).substr(0, request_.head_bytes - kHeadEnd.size());
  const Headers headers = read_headers(head, limits_.chunked);
  refusal_ = headers.refusal.http_status != 0 ? headers.refusal
                                              : refusal_of_host(headers, word(head, 2), hosts_);
  request_.keep_alive = !headers.close && word(head, 2) == "HTTP/1.1";
  // A request without a length has no body (RFC 9112, 6.3).
  left_ = headers.length.value_or(0);
  if (refusal_.http_status == 0 && left_ > limits_.body_bytes) refuse(413, "the body is too large");
  part_ = headers.chunked ? Part::kChunkSize : left_ > 0 ? Part::kBody : Part::kEnd;
}

void RequestReader::take_body(std::string_view& bytes, Part next) {
  const std::string_view taken = bytes.substr(0, left_);
  // A size over the limit was refused before, so the body grows to body_bytes at most.
  request_.bytes.append(taken);
  bytes.remove_prefix(taken.size());
  left_ -= taken.size();
  if (left_ == 0) part_ = next;
}

// The lines of a chunked body: a size before each chunk, an empty line after the chunk, and trailer
// headers at the end. Trailer headers are ignored.
void RequestReader::take_line(std::string_view& bytes) {
  const std::size_t end = bytes.find('\n');
  const std::string_view taken = bytes.substr(0, end == bytes.npos ? end : end + 1);
  const bool in_trailer = part_ == Part::kTrailer;
  // A bound over all trailer lines: each single line has a bound too, but a client may send lines
  // without end.
  if (in_trailer) trailer_bytes_ += taken.size();
  if (line_.size() + taken.size() > (in_trailer ? limits_.head_bytes : kMostChunkLine) ||
      trailer_bytes_ > limits_.head_bytes)
    return refuse(in_trailer ? 431 : 400, in_trailer ? "the trailer of the request is too large"
                                                     : "a line of a chunk is too long");
  line_.append(taken);
  bytes.remove_prefix(taken.size());
  if (end == bytes.npos) return;
  // A bare LF is a known way of request smuggling, since servers differ in their reading.
  if (!line_.ends_with("\r\n")) return refuse(400, "a line of a chunked body does not end in CRLF");
  line_.resize(line_.size() - 2);
  if (part_ == Part::kChunkSize) {
    read_chunk_size();
  } else if (part_ == Part::kChunkEnd) {
    if (!line_.empty()) return refuse(400, "a chunk is longer than its announced length");
    part_ = Part::kChunkSize;
  } else if (line_.empty()) {
    part_ = Part::kEnd;
  }
  line_.clear();
}

void RequestReader::read_chunk_size() {
  const std::string_view text = trimmed(std::string_view(line_).substr(0, line_.find(';')));
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), left_, 16);
  if (text.empty() || error == std::errc::invalid_argument || end != text.data() + text.size())
    return refuse(400, "the size of a chunk is no number");
  if (error != std::errc() ||
      left_ > limits_.body_bytes - (request_.bytes.size() - request_.head_bytes))
    return refuse(413, "the body is too large");
  part_ = left_ == 0 ? Part::kTrailer : Part::kChunk;
}

Request RequestReader::release() {
  part_ = Part::kHead;
  trailer_bytes_ = 0;
  return std::exchange(request_, {});
}

}  // namespace larder::http

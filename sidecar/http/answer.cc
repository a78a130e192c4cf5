#include "sidecar/http/answer.h"

#include <sys/eventfd.h>

#include <utility>

namespace larder::http {
namespace {

// Only the codes that this project sends. A client needs the number; the words are for people with
// curl.
std::string_view reason(int http_status) {
  switch (http_status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 411: return "Length Required";
    case 413: return "Payload Too Large";
    case 415: return "Unsupported Media Type";
    case 421: return "Misdirected Request";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 503: return "Service Unavailable";
    default: return "Error";
  }
}

}  // namespace

std::string plain_answer(int http_status, std::string_view text) {
  return whole_answer(http_status, "text/plain", std::string(text) + "\n", false);
}

// A Content-Length and never chunks: the answer is whole in memory, and HTTP/1.0 clients know no
// chunks.
std::string whole_answer(int http_status, std::string_view content_type, std::string_view body,
                         bool keep_alive, std::string_view fields) {
  std::string bytes = "HTTP/1.1 " + std::to_string(http_status) + " ";
  bytes.append(reason(http_status)).append("\r\nContent-Type: ").append(content_type);
  if (!keep_alive) bytes += "\r\nConnection: close";
  bytes += "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  return bytes.append(fields).append("\r\n").append(body);
}

// An eventfd, because the thread of the endpoint waits in poll() for sockets and answers at once.
Mailbox::Mailbox() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Mailbox::post(std::uint64_t connection, Answer answer) {
  {
    const std::lock_guard lock(mutex_);
    answers_.emplace_back(connection, std::move(answer));
  }
  // After the lock: the endpoint may wake at once and needs the lock for take().
  wake();
}

void Mailbox::wake() {
  ::eventfd_write(wake_.get(), 1);
}

std::vector<std::pair<std::uint64_t, Answer>> Mailbox::take() {
  eventfd_t ignored = 0;
  // First the eventfd, then the list. An answer posted in between wakes the endpoint once more, and
  // none is missed.
  ::eventfd_read(wake_.get(), &ignored);
  const std::lock_guard lock(mutex_);
  return std::exchange(answers_, {});
}

}  // namespace larder::http

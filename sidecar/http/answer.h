// Answers, and how they find their way back to the connection. plain_answer and whole_answer are pure; all is thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "shim/base/fd.h"

namespace larder::http {

// A whole HTTP/1.1 answer of plain text that ends the connection.
std::string plain_answer(int http_status, std::string_view text);

// A whole answer; `keep_alive` is the request's. `fields`: further ones of the header, each ending in CRLF.
std::string whole_answer(int http_status, std::string_view content_type, std::string_view body, bool keep_alive,
                         std::string_view fields = {});

struct Answer {
  std::string bytes;
  bool earned = false;  // who sent this request is one to keep when connections run out
};

// Answers on their way to the endpoint's thread.
class Mailbox {
 public:
  Mailbox();
  void post(std::uint64_t connection, Answer answer);
  std::vector<std::pair<std::uint64_t, Answer>> take();
  void wake();                                    // without an answer
  const Fd& descriptor() const { return wake_; }  // readable: there is something to take

 private:
  const Fd wake_;
  std::mutex mutex_;
  std::vector<std::pair<std::uint64_t, Answer>> answers_;  // at most one a connection
};

// Where the answer of one request goes: to be called once, from any thread, also when the connection or the endpoint are gone.
class Reply {
 public:
  Reply(std::shared_ptr<Mailbox> mailbox, std::uint64_t connection) : mailbox_(std::move(mailbox)), connection_(connection) {}
  void operator()(Answer answer) const { mailbox_->post(connection_, std::move(answer)); }

 private:
  std::shared_ptr<Mailbox> mailbox_;  // shared: who answers may outlive the endpoint
  std::uint64_t connection_;
};

}  // namespace larder::http

// Answers, and their way back to the connection. plain_answer() and whole_answer() are pure. All
// functions and classes here are thread-safe.
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

// A whole answer. `keep_alive`: the value of the request. `fields`: further header fields, each
// ending in CRLF.
std::string whole_answer(int http_status, std::string_view content_type, std::string_view body,
                         bool keep_alive, std::string_view fields = {});

struct Answer {
  std::string bytes;
  bool earned = false;  // moves the client to ConnectionClass::kEarned
};

// A queue of answers for the thread of the endpoint.
class Mailbox {
 public:
  Mailbox();
  void post(std::uint64_t connection, Answer answer);
  std::vector<std::pair<std::uint64_t, Answer>> take();
  void wake();                                    // wakes the endpoint without an answer
  const Fd& descriptor() const { return wake_; }  // readable after post() and wake()

 private:
  const Fd wake_;
  std::mutex mutex_;
  std::vector<std::pair<std::uint64_t, Answer>> answers_;  // at most one a connection
};

// Sends the answer of one request. Call it once, from any thread. The connection or the endpoint
// may be gone by then.
class Reply {
 public:
  Reply(std::shared_ptr<Mailbox> mailbox, std::uint64_t connection)
      : mailbox_(std::move(mailbox)), connection_(connection) {}
  void operator()(Answer answer) const { mailbox_->post(connection_, std::move(answer)); }

 private:
  std::shared_ptr<Mailbox> mailbox_;  // shared: a Reply may outlive the endpoint
  std::uint64_t connection_;
};

}  // namespace larder::http

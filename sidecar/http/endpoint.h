// Endpoint: one listening socket and the thread that serves it, whatever its clients do.
//
// Requests are read without blocking and handed on only when they are whole, so that a silent or slow client costs one of a
// bounded number of connections and no thread. Every wait ends by an absolute deadline. Where places run out, crowding.h says
// who goes. Clients that have earned an answer are served before strangers, of whom each round serves a few: a flood of TLS
// handshakes cannot starve them.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/http/answer.h"
#include "sidecar/http/connection.h"
#include "sidecar/http/connection_limits.h"
#include "sidecar/http/framing.h"
#include "sidecar/http/listener.h"
#include "sidecar/http/stream.h"

namespace larder::http {

class Endpoint {
 public:
  // Bytes of a whole request in, bytes of a whole answer out. Called on the endpoint's thread alone: must be quick.
  using Respond = std::function<std::string(const std::string& request)>;
  // The same where the answer is made elsewhere: it goes to `reply`, at once or later, from any thread.
  using Handle = std::function<void(Request request, Reply reply)>;

  // `clock` and `counters` outlive the endpoint. The thread starts at once.
  Endpoint(Listener listener, Limits limits, Handle handle, const base::Clock& clock, Counters& counters,
           OpenStream open = open_plain_stream);
  Endpoint(Listener listener, Limits limits, Respond respond, const base::Clock& clock, Counters& counters);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const std::string& address() const { return listener_.address; }

 private:
  void loop();
  int wait(std::vector<pollfd>& polled) const;
  void advance_all(const std::vector<pollfd>& polled);
  void advance(Connection& connection);
  void deliver();
  void end_overdue();
  void end_largest();
  void accept_all();
  void close_crowding_client();
  void ran_out();

  Listener listener_;
  const Limits limits_;
  const Handle handle_;
  const OpenStream open_;
  const base::Clock& clock_;
  Counters& counters_;
  const std::shared_ptr<Mailbox> mailbox_;  // shared with every Reply
  std::atomic<bool> stopping_{false};
  std::uint64_t accept_again_ms_ = 0;  // after descriptors ran out
  std::uint64_t last_id_ = 0;
  std::uint64_t known_id_ = 0;     // the last that was there when descriptors ran out
  std::size_t next_stranger_ = 0;  // whose turn it is
  std::vector<char> buffer_;
  Connections connections_;  // in the order of their accept
  std::jthread thread_;
};

}  // namespace larder::http

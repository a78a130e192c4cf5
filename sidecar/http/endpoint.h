// Endpoint: one listening socket, and the thread that serves the socket whatever the clients do.
//
// The thread reads without blocking and passes on whole requests only. A silent or slow client
// therefore costs one of a bounded number of connections, and no thread. Every wait ends by an
// absolute deadline. When a class of connections is full, connection_limits.h chooses the
// connection to close. Clients in ConnectionClass::kEarned are served before new clients, and each
// round serves only a few new clients: a flood of TLS handshakes cannot starve earned clients.
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
  // A whole request in, a whole answer out. Called on the thread of the endpoint: must be quick.
  using Respond = std::function<std::string(const std::string& request)>;
  // The same for an answer that another thread may make: call `reply` at once or later, from any
  // thread.
  using Handle = std::function<void(Request request, Reply reply)>;

  // `clock` and `counters` outlive the endpoint. The thread starts at once.
  Endpoint(Listener listener, Limits limits, Handle handle, const base::Clock& clock,
           Counters& counters, OpenStream open = open_plain_stream);
  Endpoint(Listener listener, Limits limits, Respond respond, const base::Clock& clock,
           Counters& counters);
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
  void close_excess_connection();
  void ran_out();

  Listener listener_;
  const Limits limits_;
  const Handle handle_;
  const OpenStream open_;
  const base::Clock& clock_;
  Counters& counters_;
  const std::shared_ptr<Mailbox> mailbox_;  // shared with every Reply
  std::atomic<bool> stopping_{false};
  std::uint64_t accept_again_ms_ = 0;  // no accept before: descriptors ran out
  std::uint64_t last_id_ = 0;
  std::uint64_t known_id_ = 0;  // the newest connection at the time when descriptors ran out
  std::size_t next_new_ = 0;    // the place of the next new client to serve
  std::vector<char> buffer_;
  Connections connections_;  // in the order of accept
  std::jthread thread_;
};

}  // namespace larder::http

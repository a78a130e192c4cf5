// Endpoint: one listening socket and the thread that serves it, whatever its clients do.
//
// Requests are read without blocking and answered only when they are whole, so that a silent or slow client costs one of a
// bounded number of connections and no thread. Each connection carries one request and ends by an absolute deadline; where
// connections run out the oldest one goes. Handlers run on the endpoint's thread and must be quick.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "sidecar/base/clock.h"
#include "sidecar/http/framing.h"
#include "sidecar/http/listener.h"

namespace larder::http {

// What all endpoints of a server count. Thread-safe.
struct Counters {
  std::atomic<std::uint64_t> requests{0}, refused{0}, timed_out{0}, crowded_out{0};
};

class Endpoint {
 public:
  // Bytes of a whole request in, bytes of a whole answer out. Called on the endpoint's thread alone.
  using Respond = std::function<std::string(const std::string& request)>;

  // `clock` and `counters` outlive the endpoint. The thread starts at once.
  Endpoint(Listener listener, Limits limits, Respond respond, const base::Clock& clock, Counters& counters);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const std::string& address() const { return listener_.address; }

 private:
  struct Connection {
    enum class State { kReading, kWriting, kClosing };
    Fd socket;
    std::uint64_t deadline_ms = 0;
    State state = State::kReading;
    std::string bytes = {};   // received, then the answer
    std::size_t written = 0;  // of the answer
    bool over = false;
  };

  void loop();
  int wait(std::vector<pollfd>& polled) const;
  void accept_all();
  void advance(Connection& connection);
  void read(Connection& connection);
  void write(Connection& connection);
  void discard(Connection& connection);
  void end_overdue();

  Listener listener_;
  const Limits limits_;
  const Respond respond_;
  const base::Clock& clock_;
  Counters& counters_;
  Fd wake_;
  std::atomic<bool> stopping_{false};
  std::uint64_t accept_again_ms_ = 0;    // after descriptors ran out
  std::vector<Connection> connections_;  // in the order of their accept
  std::jthread thread_;
};

}  // namespace larder::http

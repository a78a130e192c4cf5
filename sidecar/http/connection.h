// Connection: one client of an endpoint. Reads requests and writes answers, one after the other.
// Owned by the thread of the endpoint.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "sidecar/http/answer.h"
#include "sidecar/http/framing.h"
#include "sidecar/http/stream.h"

namespace larder::http {

// Counters of all endpoints of a server. Thread-safe.
struct Counters {
  std::atomic<std::uint64_t> requests{0}, refused{0}, timed_out{0}, crowded_out{0};
};

// The class of a client. Each class has places of its own, so a flood of one class cannot crowd out
// another class.
enum class ConnectionClass {
  kSilent,  // the stream has not begun
  kNew,     // in a handshake or in the first request, perhaps
  kEarned,  // got an answer with Answer::earned
};

class Connection {
 public:
  enum class State {
    kReading,    // waits for a request or reads one
    kAnswering,  // the request is whole; waits for answer()
    kWriting,
    // The last answer is written; waits for the client to close. Closing a socket with unread bytes
    // sends a reset, and the client could lose the answer.
    kClosing,
    kOver,
  };

  struct Client {
    std::uint64_t id = 0;
    std::string peer;  // the address
    std::unique_ptr<Stream> stream;
  };
  // Of the endpoint; all outlive the connection.
  struct Rules {
    const Limits& limits;
    const Hosts& hosts;
    Counters& counters;
  };
  Connection(Client client, const Rules& rules, std::uint64_t now_ms);

  // Reads or writes as far as possible without waiting. Call it when the stream may be ready.
  // Returns a request once the request is whole; one call of answer() must follow. `buffer` has
  // room for kMostRecord.
  std::optional<Request> advance(std::span<char> buffer, std::uint64_t now_ms);
  void answer(Answer answer);
  void end() { state_ = State::kOver; }

  std::uint64_t id() const { return id_; }
  const std::string& peer() const { return peer_; }
  State state() const { return state_; }
  int fd() const { return stream_->fd(); }
  short awaits() const { return awaits_; }  // for poll()
  std::uint64_t deadline_ms() const { return deadline_ms_; }
  std::uint64_t active_ms() const {
    return active_ms_;
  }  // the time of the last whole request or answer
  ConnectionClass connection_class() const {
    return earned_            ? ConnectionClass::kEarned
           : stream_->begun() ? ConnectionClass::kNew
                              : ConnectionClass::kSilent;
  }
  // How often the client sent bytes: a new client in the middle of a handshake outranks a quiet
  // new client.
  unsigned turns() const { return turns_; }
  bool busy() const { return state_ == State::kAnswering || state_ == State::kWriting; }
  // Between two requests: the connection may end without loss.
  bool idle() const { return state_ == State::kReading && !reader_.begun() && served_ > 0; }
  std::size_t held_bytes() const {
    return reader_.held_bytes() + leftover_.size() + answering_bytes_ + answer_.size();
  }

 private:
  std::optional<Request> read(std::span<char> buffer, std::uint64_t now_ms);
  std::optional<Request> write(std::uint64_t now_ms);
  std::optional<Request> take(std::string_view bytes, std::uint64_t now_ms);
  void discard(std::span<char> buffer);

  const std::uint64_t id_;
  const std::string peer_;
  const std::unique_ptr<Stream> stream_;
  const Limits& limits_;
  Counters& counters_;
  State state_ = State::kReading;
  short awaits_;
  std::uint64_t deadline_ms_, active_ms_;
  RequestReader reader_;
  std::string leftover_;             // bytes behind a whole request: at most one buffer
  std::size_t answering_bytes_ = 0;  // the size of the request in kAnswering
  std::string answer_;
  std::size_t written_ = 0;    // of answer_
  std::size_t discarded_ = 0;  // bytes in kClosing
  unsigned served_ = 0, turns_ = 0;
  bool last_ = false;  // the answer ends the connection
  bool earned_ = false;
};

}  // namespace larder::http

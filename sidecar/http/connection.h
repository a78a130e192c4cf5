// Connection: one client of an endpoint: requests in and answers out, one after the other. Owned by the endpoint's thread.
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

// What all endpoints of a server count. Thread-safe.
struct Counters {
  std::atomic<std::uint64_t> requests{0}, refused{0}, timed_out{0}, crowded_out{0};
};

// What a client is owed. Each kind has places of its own, so that no flood of one crowds out another.
enum class ConnectionClass {
  kSilent,    // has not begun
  kStranger,  // may be in the midst of a handshake, or of its first request
  kEarned,    // had an answer that earned it its place
};

class Connection {
 public:
  enum class State {
    kReading,    // a request, or nothing yet
    kAnswering,  // it is whole, and its answer is being made
    kWriting,
    kClosing,  // the last answer is out. A close with unread bytes would make the kernel take it back: waits for the client's end
    kOver,
  };

  // `limits`, `hosts` and `counters` outlive the connection. `peer`: the address it comes from.
  Connection(std::uint64_t id, std::string peer, std::unique_ptr<Stream> stream, const Limits& limits, const Hosts& hosts,
             Counters& counters, std::uint64_t now_ms);

  // The stream is ready, or may be: moves what can be moved without waiting. A request comes out when it is whole; answer() must
  // follow, once. `buffer` has room for kMostRecord.
  std::optional<Request> advance(std::span<char> buffer, std::uint64_t now_ms);
  void answer(Answer answer);
  void end() { state_ = State::kOver; }

  std::uint64_t id() const { return id_; }
  const std::string& peer() const { return peer_; }
  State state() const { return state_; }
  int fd() const { return stream_->fd(); }
  short awaits() const { return awaits_; }  // for poll()
  std::uint64_t deadline_ms() const { return deadline_ms_; }
  std::uint64_t active_ms() const { return active_ms_; }  // when it last sent or was sent a whole request or answer
  ConnectionClass standing() const {
    return earned_ ? ConnectionClass::kEarned : stream_->begun() ? ConnectionClass::kStranger : ConnectionClass::kSilent;
  }
  // How often its client had something to say: a stranger who is in the midst of a handshake is worth more than a silent one.
  unsigned turns() const { return turns_; }
  bool busy() const { return state_ == State::kAnswering || state_ == State::kWriting; }
  // Nothing is under way: it may end without anybody missing anything.
  bool idle() const { return state_ == State::kReading && !reader_.begun() && served_ > 0; }
  std::size_t held_bytes() const { return reader_.held_bytes() + leftover_.size() + answering_bytes_ + answer_.size(); }

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
  std::string leftover_;             // what came after a whole request: at most a buffer of it
  std::size_t answering_bytes_ = 0;  // of the request that is being answered
  std::string answer_;
  std::size_t written_ = 0;    // of answer_
  std::size_t discarded_ = 0;  // while closing
  unsigned served_ = 0, turns_ = 0;
  bool last_ = false;  // the answer ends the connection
  bool earned_ = false;
};

}  // namespace larder::http

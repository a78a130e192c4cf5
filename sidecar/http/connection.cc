#include "sidecar/http/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace larder::http {
namespace {

// The bytes that a refused client may still send before the close: enough for an honest client to
// read its answer.
constexpr std::size_t kMostDiscarded = 1u << 20;

}  // namespace

Connection::Connection(Client client, const Rules& rules, std::uint64_t now_ms)
    : id_(client.id),
      peer_(std::move(client.peer)),
      stream_(std::move(client.stream)),
      limits_(rules.limits),
      counters_(rules.counters),
      awaits_(POLLIN),
      // The first deadline counts from accept: a client that connects and stays silent is closed
      // after the deadline.
      deadline_ms_(now_ms + rules.limits.deadline_ms),
      active_ms_(now_ms),
      reader_(rules.limits, rules.hosts) {}

std::optional<Request> Connection::advance(std::span<char> buffer, std::uint64_t now_ms) {
  switch (state_) {
    case State::kReading: turns_ += stream_->begun(); return read(buffer, now_ms);
    case State::kWriting: return write(now_ms);
    case State::kClosing: discard(buffer); return {};
    // No reading meanwhile: a client that sends requests without reading answers fills its own
    // socket buffer, not our memory.
    case State::kAnswering:
    case State::kOver: break;
  }
  return {};
}

std::optional<Request> Connection::read(std::span<char> buffer, std::uint64_t now_ms) {
  const Stream::Moved moved = stream_->read(buffer);
  if (moved.bytes > 0) return take({buffer.data(), moved.bytes}, now_ms);
  awaits_ = moved.awaits;
  if (awaits_ == 0) state_ = State::kOver;
  return {};
}

std::optional<Request> Connection::take(std::string_view bytes, std::uint64_t now_ms) {
  // A kept connection gets a new deadline with the first byte of each further request. Bytes that
  // follow do not prolong the deadline, so a slow sender is closed.
  if (!reader_.begun() && served_ > 0) deadline_ms_ = now_ms + limits_.deadline_ms;
  awaits_ = POLLIN;
  const RequestReader::State state = reader_.take(bytes);
  if (state == RequestReader::State::kMore) return {};
  active_ms_ = now_ms;
  ++served_;
  if (state == RequestReader::State::kRefused) {
    ++counters_.refused;
    last_ = true;
    // The bytes behind a refused request cannot be framed, so this answer is the last.
    answer({plain_answer(reader_.refusal().http_status, reader_.refusal().why), earned_});
    return write(now_ms);
  }
  ++counters_.requests;
  // A client may send the next request early (pipelining). The requests are answered in order, one
  // after the other.
  leftover_ = bytes;
  Request request = reader_.release();
  request.peer = peer_;
  // A bound for each connection, so that no client keeps its place for ever.
  request.keep_alive = request.keep_alive && served_ < limits_.requests;
  last_ = !request.keep_alive;
  answering_bytes_ = request.bytes.size();
  state_ = State::kAnswering;
  return request;
}

void Connection::answer(Answer answer) {
  earned_ |= answer.earned;
  answering_bytes_ = 0;
  answer_ = std::move(answer.bytes);
  written_ = 0;
  awaits_ = POLLOUT;
  state_ = answer_.empty() ? State::kOver : State::kWriting;
}

std::optional<Request> Connection::write(std::uint64_t now_ms) {
  const Stream::Moved moved = stream_->write(std::string_view(answer_).substr(written_));
  if (moved.bytes == 0) {
    awaits_ = moved.awaits;
    if (awaits_ == 0) state_ = State::kOver;
    return {};
  }
  written_ += moved.bytes;
  if (written_ < answer_.size()) return {};
  // Frees a large metrics page while the connection is idle.
  answer_ = {};
  active_ms_ = now_ms;
  awaits_ = POLLIN;
  if (last_) {
    // Ends our direction only. A close with unread bytes would send a reset, and the client could
    // lose the answer.
    stream_->finish();
    state_ = State::kClosing;
    return {};
  }
  state_ = State::kReading;
  deadline_ms_ = now_ms + limits_.idle_ms;
  if (leftover_.empty()) return {};
  const std::string next = std::exchange(leftover_, {});
  return take(next, now_ms);
}

// Reads from the socket and not through the stream: the bytes are discarded, so TLS need not
// decrypt.
void Connection::discard(std::span<char> buffer) {
  const ssize_t got = ::recv(fd(), buffer.data(), buffer.size(), 0);
  if (got > 0) discarded_ += static_cast<std::size_t>(got);
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR) || discarded_ > kMostDiscarded)
    state_ = State::kOver;
}

}  // namespace larder::http

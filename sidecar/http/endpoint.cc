#include "sidecar/http/endpoint.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "sidecar/http/answer.h"

namespace larder::http {
namespace {

constexpr std::uint64_t kAcceptPauseMs = 100;
constexpr int kIdleWaitMs = 1000;

}  // namespace

Endpoint::Endpoint(Listener listener, Limits limits, Respond respond, const base::Clock& clock, Counters& counters)
    : listener_(std::move(listener)),
      limits_(limits),
      respond_(std::move(respond)),
      clock_(clock),
      counters_(counters),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { loop(); }) {}

Endpoint::~Endpoint() {
  stopping_ = true;
  ::eventfd_write(wake_.get(), 1);
}

void Endpoint::loop() {
  std::vector<pollfd> polled;
  while (!stopping_) {
    if (wait(polled) < 0) continue;
    for (std::size_t i = 0; i < connections_.size(); ++i)
      if (polled[i + 2].revents != 0) advance(connections_[i]);
    end_overdue();
    std::erase_if(connections_, [](const Connection& connection) { return connection.over; });
    if (polled[1].revents != 0) accept_all();
  }
}

// polled[0] wakes, [1] listens, the others are the connections in their order.
int Endpoint::wait(std::vector<pollfd>& polled) const {
  const std::uint64_t now_ms = clock_.now_ms();
  std::uint64_t wait_ms = kIdleWaitMs;
  polled.assign(1, {wake_.get(), POLLIN, 0});
  const bool paused = now_ms < accept_again_ms_;
  polled.push_back({paused ? -1 : listener_.socket.get(), POLLIN, 0});
  if (paused) wait_ms = std::min(wait_ms, accept_again_ms_ - now_ms);
  for (const Connection& connection : connections_) {
    const bool writing = connection.state == Connection::State::kWriting;
    polled.push_back({connection.socket.get(), static_cast<short>(writing ? POLLOUT : POLLIN), 0});
    wait_ms = std::min(wait_ms, connection.deadline_ms > now_ms ? connection.deadline_ms - now_ms : 0);
  }
  return ::poll(polled.data(), polled.size(), static_cast<int>(wait_ms));
}

void Endpoint::accept_all() {
  for (std::size_t i = 0; i < limits_.connections; ++i) {
    Fd socket(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        accept_again_ms_ = clock_.now_ms() + kAcceptPauseMs;
      return;
    }
    if (connections_.size() >= limits_.connections) {
      connections_.erase(connections_.begin());
      ++counters_.crowded_out;
    }
    connections_.push_back({std::move(socket), clock_.now_ms() + limits_.deadline_ms});
  }
}

void Endpoint::advance(Connection& connection) {
  switch (connection.state) {
    case Connection::State::kReading: return read(connection);
    case Connection::State::kWriting: return write(connection);
    case Connection::State::kClosing: return discard(connection);
  }
}

void Endpoint::read(Connection& connection) {
  std::array<char, 4096> buffer{};
  const ssize_t got = ::recv(connection.socket.get(), buffer.data(), buffer.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  connection.over = got <= 0;
  if (connection.over) return;
  connection.bytes.append(buffer.data(), static_cast<std::size_t>(got));
  const Framing framing = find_request(connection.bytes, limits_);
  if (framing.state == Framing::State::kMore) return;
  if (framing.state == Framing::State::kRefused) {
    ++counters_.refused;
    connection.bytes = plain_answer(framing.http_status, framing.why);
  } else {
    ++counters_.requests;
    connection.bytes.resize(framing.request_bytes);
    connection.bytes = respond_(connection.bytes);
  }
  connection.state = Connection::State::kWriting;
  write(connection);
}

void Endpoint::write(Connection& connection) {
  const std::string_view rest = std::string_view(connection.bytes).substr(connection.written);
  const ssize_t sent = ::send(connection.socket.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
  connection.over = sent < 0;
  if (connection.over) return;
  connection.written += static_cast<std::size_t>(sent);
  if (connection.written < connection.bytes.size()) return;
  // A close with unread bytes would make the kernel take the answer back from the client: wait for its end first.
  ::shutdown(connection.socket.get(), SHUT_WR);
  connection.state = Connection::State::kClosing;
  connection.bytes = {};
}

void Endpoint::discard(Connection& connection) {
  std::array<char, 4096> buffer{};
  const ssize_t got = ::recv(connection.socket.get(), buffer.data(), buffer.size(), 0);
  connection.over = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

void Endpoint::end_overdue() {
  const std::uint64_t now_ms = clock_.now_ms();
  for (Connection& connection : connections_) {
    if (connection.over || now_ms < connection.deadline_ms) continue;
    connection.over = true;
    if (connection.state != Connection::State::kClosing) ++counters_.timed_out;
  }
}

}  // namespace larder::http

#include "sidecar/http/endpoint.h"

#include <signal.h>

#include <algorithm>

#include "sidecar/base/log_throttle.h"
#include "sidecar/base/tcp_listener.h"

namespace larder::http {
namespace {

// Without descriptors the listening socket stays readable, and poll() would return at once for
// ever.
constexpr std::uint64_t kAcceptPauseMs = 100;
constexpr int kIdleWaitMs = 1000;
constexpr std::size_t kNewARound = 8;  // a TLS handshake takes part of a millisecond
constexpr std::size_t kAcceptsARound = 64;

}  // namespace

Endpoint::Endpoint(Listener listener, Limits limits, Handle handle, const base::Clock& clock,
                   Counters& counters, OpenStream open)
    : listener_(std::move(listener)),
      limits_(limits),
      handle_(std::move(handle)),
      open_(std::move(open)),
      clock_(clock),
      counters_(counters),
      mailbox_(std::make_shared<Mailbox>()),
      // One buffer for all connections: the thread reads one connection at a time. At least one TLS
      // record, or OpenSSL would keep decrypted bytes that poll() cannot see.
      buffer_(kMostRecord),
      thread_([this] { loop(); }) {}

Endpoint::Endpoint(Listener listener, Limits limits, Respond respond, const base::Clock& clock,
                   Counters& counters)
    : Endpoint(
          std::move(listener), limits,
          [respond = std::move(respond)](const Request& request, const Reply& reply) {
            reply({respond(request.bytes), false});
          },
          clock, counters) {}

Endpoint::~Endpoint() {
  stopping_ = true;
  // The thread is the last member, so its join comes first and every other member outlives the
  // thread.
  mailbox_->wake();
}

void Endpoint::loop() {
  // OpenSSL writes without MSG_NOSIGNAL, so SIGPIPE must be blocked.
  sigset_t broken_pipes;
  sigemptyset(&broken_pipes);
  sigaddset(&broken_pipes, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipes, nullptr);
  std::vector<pollfd> polled;
  while (!stopping_) {
    base::tell_left_out();
    // A failed poll() (EINTR) leaves `revents` unset.
    if (wait(polled) < 0) continue;
    deliver();
    advance_all(polled);
    deliver();
    end_overdue();
    end_largest();
    // New connections come last: `polled` has no entries for them.
    if (polled[1].revents != 0) accept_all();
    close_excess_connection();
    std::erase_if(connections_, [](const auto& connection) {
      return connection->state() == Connection::State::kOver;
    });
  }
  connections_.clear();
}

// polled[0]: the mailbox; [1]: the listening socket; the others: connections_, in order.
int Endpoint::wait(std::vector<pollfd>& polled) const {
  const std::uint64_t now_ms = clock_.now_ms();
  std::uint64_t wait_ms = kIdleWaitMs;
  polled.assign(1, {mailbox_->descriptor().get(), POLLIN, 0});
  const bool paused = now_ms < accept_again_ms_;
  // poll() ignores negative descriptors, and the positions in the list stay the same.
  polled.push_back({paused ? -1 : listener_.socket.get(), POLLIN, 0});
  if (paused) wait_ms = std::min(wait_ms, accept_again_ms_ - now_ms);
  for (const auto& connection : connections_) {
    const bool answering = connection->state() == Connection::State::kAnswering;
    polled.push_back({answering ? -1 : connection->fd(), connection->awaits(), 0});
    wait_ms = std::min(wait_ms,
                       connection->deadline_ms() > now_ms ? connection->deadline_ms() - now_ms : 0);
  }
  return ::poll(polled.data(), polled.size(), static_cast<int>(wait_ms));
}

void Endpoint::advance_all(const std::vector<pollfd>& polled) {
  const std::size_t count = connections_.size();
  for (std::size_t i = 0; i < count; ++i)
    if (polled[i + 2].revents != 0 && connections_[i]->connection_class() != ConnectionClass::kNew)
      advance(*connections_[i]);
  // New clients take turns from one round to the next: a flood of handshakes delays others, but no
  // new client waits for ever.
  std::size_t served = 0, at = next_new_;
  for (std::size_t i = 0; i < count && served < kNewARound; ++i, ++at) {
    Connection& connection = *connections_[at % count];
    if (polled[at % count + 2].revents == 0 ||
        connection.connection_class() != ConnectionClass::kNew)
      continue;
    advance(connection);
    ++served;
  }
  next_new_ = count == 0 ? 0 : at % count;
}

void Endpoint::advance(Connection& connection) {
  if (std::optional<Request> request = connection.advance(buffer_, clock_.now_ms()))
    // Handlers run on this thread. The admin socket and the TCP address have one endpoint each, so
    // a slow handler delays its own address only.
    handle_(*std::move(request), Reply(mailbox_, connection.id()));
}

// Answers to connections that ended in the meantime are dropped.
void Endpoint::deliver() {
  for (auto& [id, answer] : mailbox_->take()) {
    // connections_ is in the order of accept, hence sorted by id.
    const auto found = std::ranges::lower_bound(
        connections_, id, {}, [](const auto& connection) { return connection->id(); });
    if (found == connections_.end() || (*found)->id() != id ||
        (*found)->state() != Connection::State::kAnswering)
      continue;
    (*found)->answer(std::move(answer));
    advance(**found);
  }
}

void Endpoint::end_overdue() {
  const std::uint64_t now_ms = clock_.now_ms();
  for (const auto& connection : connections_) {
    if (connection->state() == Connection::State::kOver || now_ms < connection->deadline_ms())
      continue;
    // An idle or closing client is no fault and is not counted.
    if (connection->state() != Connection::State::kClosing && !connection->idle())
      ++counters_.timed_out;
    connection->end();
  }
}

void Endpoint::end_largest() {
  std::size_t held = 0;
  for (const auto& connection : connections_) held += connection->held_bytes();
  // Bounds the memory of all clients together. A few large requests would otherwise need places
  // times the largest body.
  while (held > limits_.held_bytes) {
    Connection* largest = nullptr;
    for (const auto& connection : connections_) {
      if (connection->state() == Connection::State::kOver ||
          // Its request is with the handler, so closing would free no memory.
          connection->state() == Connection::State::kAnswering)
        continue;
      if (largest == nullptr || connection->held_bytes() > largest->held_bytes())
        largest = connection.get();
    }
    if (largest == nullptr) return;
    held -= largest->held_bytes();
    largest->end();
    ++counters_.crowded_out;
  }
}

// A silent, slow or deaf client costs one place in its class of connections. No client costs a
// thread, or the reply to another client.
void Endpoint::close_excess_connection() {
  counters_.crowded_out +=
      http::close_excess_connection(connections_, ConnectionClass::kSilent, limits_.silent) +
      http::close_excess_connection(connections_, ConnectionClass::kNew, limits_.new_clients) +
      http::close_excess_connection(connections_, ConnectionClass::kEarned, limits_.earned);
}

// Descriptors or memory ran out: closes half of the silent connections, and keeps as many as came
// since the last time. A single client that got the last descriptor is not closed before its first
// bytes.
void Endpoint::ran_out() {
  const auto came = [this](const auto& one) {
    return one->id() > known_id_ && one->connection_class() == ConnectionClass::kSilent &&
           one->state() != Connection::State::kOver;
  };
  const auto fresh = static_cast<std::size_t>(std::ranges::count_if(connections_, came));
  const std::size_t silent = count_of(connections_, ConnectionClass::kSilent);
  counters_.crowded_out += http::close_excess_connection(connections_, ConnectionClass::kSilent,
                                                         std::max(silent / 2, fresh));
  known_id_ = last_id_;
  accept_again_ms_ = clock_.now_ms() + kAcceptPauseMs;
}

void Endpoint::accept_all() {
  for (std::size_t i = 0; i < kAcceptsARound; ++i) {
    base::Accepted accepted = base::accept_next(listener_.socket.get());
    if (!accepted.socket.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) ran_out();
      return;
    }
    // nullptr: this client cannot be served now, and sees a closed connection.
    std::unique_ptr<Stream> stream = open_(std::move(accepted.socket));
    if (stream == nullptr) continue;
    connections_.push_back(std::make_unique<Connection>(
        Connection::Client{++last_id_, std::move(accepted.peer), std::move(stream)},
        Connection::Rules{limits_, listener_.hosts, counters_}, clock_.now_ms()));
  }
}

}  // namespace larder::http

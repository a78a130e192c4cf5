#include "sidecar/http/endpoint.h"

#include <signal.h>
#include <sys/socket.h>

#include <algorithm>

namespace larder::http {
namespace {

constexpr std::uint64_t kAcceptPauseMs = 100;
constexpr int kIdleWaitMs = 1000;
constexpr unsigned kMostTurns = 3;           // that count for a stranger: hello, the end of the handshake, a request
constexpr std::size_t kStrangersARound = 8;  // a handshake of TLS takes part of a millisecond

}  // namespace

Endpoint::Endpoint(Listener listener, Limits limits, Handle handle, const base::Clock& clock, Counters& counters, OpenStream open)
    : listener_(std::move(listener)),
      limits_(limits),
      handle_(std::move(handle)),
      open_(std::move(open)),
      clock_(clock),
      counters_(counters),
      mailbox_(std::make_shared<Mailbox>()),
      buffer_(kMostRecord),
      thread_([this] { loop(); }) {}

Endpoint::Endpoint(Listener listener, Limits limits, Respond respond, const base::Clock& clock, Counters& counters)
    : Endpoint(
          std::move(listener), limits,
          [respond = std::move(respond)](const Request& request, const Reply& reply) {
            reply({respond(request.bytes), false});
          },
          clock, counters) {}

Endpoint::~Endpoint() {
  stopping_ = true;
  mailbox_->wake();
}

void Endpoint::loop() {
  // A stream of TLS writes with no flag against it.
  sigset_t broken_pipes;
  sigemptyset(&broken_pipes);
  sigaddset(&broken_pipes, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken_pipes, nullptr);
  std::vector<pollfd> polled;
  while (!stopping_) {
    if (wait(polled) < 0) continue;
    deliver();
    advance_all(polled);
    deliver();
    end_overdue();
    end_largest();
    std::erase_if(connections_, [](const auto& connection) { return connection->state() == Connection::State::kOver; });
    if (polled[1].revents != 0) accept_all();
  }
  connections_.clear();
}

// polled[0] is the mailbox, [1] listens, the others are the connections in their order.
int Endpoint::wait(std::vector<pollfd>& polled) const {
  const std::uint64_t now_ms = clock_.now_ms();
  std::uint64_t wait_ms = kIdleWaitMs;
  polled.assign(1, {mailbox_->descriptor().get(), POLLIN, 0});
  const bool paused = now_ms < accept_again_ms_;
  polled.push_back({paused ? -1 : listener_.socket.get(), POLLIN, 0});
  if (paused) wait_ms = std::min(wait_ms, accept_again_ms_ - now_ms);
  for (const auto& connection : connections_) {
    const bool answering = connection->state() == Connection::State::kAnswering;
    polled.push_back({answering ? -1 : connection->fd(), connection->awaits(), 0});
    wait_ms = std::min(wait_ms, connection->deadline_ms() > now_ms ? connection->deadline_ms() - now_ms : 0);
  }
  return ::poll(polled.data(), polled.size(), static_cast<int>(wait_ms));
}

void Endpoint::advance_all(const std::vector<pollfd>& polled) {
  const std::size_t count = connections_.size();
  for (std::size_t i = 0; i < count; ++i)
    if (polled[i + 2].revents != 0 && connections_[i]->earned()) advance(*connections_[i]);
  std::size_t strangers = 0, at = next_stranger_;
  for (std::size_t i = 0; i < count && strangers < kStrangersARound; ++i, ++at) {
    Connection& connection = *connections_[at % count];
    if (polled[at % count + 2].revents == 0 || connection.earned()) continue;
    advance(connection);
    ++strangers;
  }
  next_stranger_ = count == 0 ? 0 : at % count;
}

void Endpoint::advance(Connection& connection) {
  if (std::optional<Request> request = connection.advance(buffer_, clock_.now_ms()))
    handle_(*std::move(request), Reply(mailbox_, connection.id()));
}

// Of those whose client is gone meanwhile nobody hears.
void Endpoint::deliver() {
  for (auto& [id, answer] : mailbox_->take()) {
    const auto found = std::ranges::lower_bound(connections_, id, {}, [](const auto& connection) { return connection->id(); });
    if (found == connections_.end() || (*found)->id() != id || (*found)->state() != Connection::State::kAnswering) continue;
    (*found)->answer(std::move(answer));
    advance(**found);
  }
}

void Endpoint::end_overdue() {
  const std::uint64_t now_ms = clock_.now_ms();
  for (const auto& connection : connections_) {
    if (connection->state() == Connection::State::kOver || now_ms < connection->deadline_ms()) continue;
    if (connection->state() != Connection::State::kClosing && !connection->idle()) ++counters_.timed_out;
    connection->end();
  }
}

void Endpoint::end_largest() {
  std::size_t held = 0;
  for (const auto& connection : connections_) held += connection->held_bytes();
  while (held > limits_.held_bytes) {
    Connection* largest = nullptr;
    for (const auto& connection : connections_) {
      if (connection->state() == Connection::State::kOver || connection->state() == Connection::State::kAnswering) continue;
      if (largest == nullptr || connection->held_bytes() > largest->held_bytes()) largest = connection.get();
    }
    if (largest == nullptr) return;
    held -= largest->held_bytes();
    largest->end();
    ++counters_.crowded_out;
  }
}

// For one more, a stranger. False: all connections are busy with answers that somebody has earned.
bool Endpoint::make_room() {
  const auto strangers = std::ranges::count_if(connections_, [](const auto& connection) { return !connection->earned(); });
  if (connections_.size() < limits_.connections && static_cast<std::size_t>(strangers) < limits_.strangers) return true;
  const auto rank = [](const Connection& connection) {
    return std::tuple(connection.earned(), connection.busy(), connection.earned() ? 0 : std::min(connection.turns(), kMostTurns),
                      connection.earned() ? connection.active_ms() : connection.id());
  };
  const auto least = std::ranges::min_element(connections_, {}, [&](const auto& connection) { return rank(*connection); });
  if ((*least)->earned() && (*least)->busy()) return false;
  connections_.erase(least);
  ++counters_.crowded_out;
  return true;
}

void Endpoint::accept_all() {
  for (std::size_t i = 0; i < limits_.connections; ++i) {
    Fd socket(::accept4(listener_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        accept_again_ms_ = clock_.now_ms() + kAcceptPauseMs;
      return;
    }
    if (!make_room()) continue;
    std::unique_ptr<Stream> stream = open_(std::move(socket));
    if (stream == nullptr) continue;
    connections_.push_back(std::make_unique<Connection>(++last_id_, std::move(stream), limits_, counters_, clock_.now_ms()));
  }
}

}  // namespace larder::http

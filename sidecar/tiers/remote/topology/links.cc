#include "sidecar/tiers/remote/topology/links.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "sidecar/base/time_units.h"
#include "sidecar/net/tls_stream.h"
#include "sidecar/tiers/remote/format.h"

namespace larder::remote {
namespace {

using base::kNsPerMs;
// A connection that worked for so long counts as settled.
constexpr std::uint64_t kSettledNs = 1'000'000'000;

}  // namespace

Links::Links(const RemoteOptions& options, const base::Clock& clock, Poller& poller, Kind kind,
             Endpoint endpoint, Listener listener)
    : options_(options),
      clock_(clock),
      poller_(poller),
      kind_(kind),
      endpoint_(std::move(endpoint)),
      listener_(std::move(listener)),
      resolver_(endpoint_, poller.wake_fd()),
      breaker_(options.retry_ms, options.most_retry_ms,
               // The seed of the jitter: many larderd reconnect to a returned server, and not in
               // step.
               clock.now_ns() ^ reinterpret_cast<std::uintptr_t>(this)),
      links_(wanted()) {}

void Links::turn() {
  answered_ = false;
  for (Link& link : links_)
    // `more`: TLS may hold decrypted bytes that epoll does not report.
    if (link.event || link.more) pump(link);
  for (Link& link : links_) maintain(link, clock_.now_ns());
}

void Links::flush() {
  for (Link& link : links_) {
    if (link.state < Link::State::kHandshake || !link.connection->has_unsent()) continue;
    // A reply during the flush has a caller that waits. next_turn_ns() then asks for a turn at
    // once.
    const std::uint64_t answers = link.connection->answers;
    pump(link);
    answered_ = answered_ || link.connection == nullptr || link.connection->answers != answers;
  }
}

void Links::pump(Link& link) {
  link.event = link.more = false;
  if (link.state == Link::State::kNone) return;
  if (link.state == Link::State::kConnecting) {
    const Result<bool> established = link.connection->stream().establish();
    if (!established.ok()) return fail(link, established.status());
    if (!*established) return watch(link);
    handshake(link);
  }
  const Status status = link.connection->pump(clock_.now_ns(), link.more);
  if (!status.ok()) return fail(link, status);
  if (!link.handshaken.ok()) return fail(link, link.handshaken);
  watch(link);
}

void Links::watch(Link& link) {
  const std::uint32_t wanted = EPOLLIN | (link.connection->wants_write() ? EPOLLOUT : 0U);
  // A system call less for most turns.
  if (wanted == link.events) return;
  const bool anew = std::exchange(link.events, wanted) == 0;
  const Status watched = poller_.watch(link.connection->stream().fd(), wanted, anew, link.event);
  if (!watched.ok()) fail(link, watched);
}

// The longest time in the current state; UINT64_MAX: unlimited.
std::uint64_t Links::limit_ns(const Link& link) const {
  switch (link.state) {
    case Link::State::kNone: return UINT64_MAX;
    case Link::State::kConnecting:
      return link.since_ns +
             (options_.tls.enabled ? options_.greet_ms : options_.connect_ms) * kNsPerMs;
    case Link::State::kHandshake: return link.since_ns + options_.greet_ms * kNsPerMs;
    case Link::State::kReady: break;
  }
  const std::uint64_t since = link.connection->waiting_since_ns();
  if (since == UINT64_MAX) return UINT64_MAX;
  // The limit is on progress and not on the whole reply: a part of 2 MiB may take seconds over a
  // slow network (F-162).
  return (since == link.wait.since_ns ? link.wait.moved_ns : since) + options_.answer_ms * kNsPerMs;
}

// Sent bytes count once the other end has them: the kernel buffers many bytes at once.
void Links::note_progress(Link& link, std::uint64_t now_ns) const {
  Connection& connection = *link.connection;
  Link::Wait& wait = link.wait;
  const std::uint64_t since = connection.waiting_since_ns(),
                      moved = connection.sent_bytes + connection.received_bytes;
  const bool same = since == wait.since_ns;
  // The ioctl below asks the kernel, so the question waits until the answer can decide.
  if (same && moved < wait.moved_bytes + kLeastProgress && now_ns < limit_ns(link)) return;
  const std::int64_t arrived = static_cast<std::int64_t>(moved) -
                               static_cast<std::int64_t>(waiting_bytes(connection.stream().fd()));
  if (same && arrived < wait.arrived_bytes + static_cast<std::int64_t>(kLeastProgress)) return;
  wait = {since, same ? now_ns : since, moved, arrived};
}

void Links::maintain(Link& link, std::uint64_t now_ns) {
  if (link.state == Link::State::kReady) note_progress(link, now_ns);
  if (link.state == Link::State::kNone) {
    if (breaker_.may_try(now_ns)) connect(link);
  } else if (limit_ns(link) <= now_ns) {
    fail(link, {Code::kDeadlineExceeded, "the server does not answer"});
  } else if (link.state == Link::State::kReady && link.connection->commands() == 0 &&
             link.used_ns + options_.ping_ms * kNsPerMs <= now_ns) {
    ping(link);
  }
}

std::uint64_t Links::next_turn_ns() const {
  const std::uint64_t now = clock_.now_ns();
  std::uint64_t next = answered_ ? now : now + options_.ping_ms * kNsPerMs;
  for (const Link& link : links_) {
    if (link.more || (link.state >= Link::State::kHandshake && link.connection->has_unsent()))
      return 0;
    next = std::min(next, limit_ns(link));
    if (link.state == Link::State::kReady && link.connection->commands() == 0)
      next = std::min(next, link.used_ns + options_.ping_ms * kNsPerMs);
    // A connection in progress has a limit of its own; the end of a name resolution wakes the
    // thread.
    if (link.state == Link::State::kNone && breaker_.may_try(std::max(now, breaker_.next_ns())) &&
        !resolving_)
      next = std::min(next, breaker_.next_ns());
  }
  return next <= now ? 0 : next - now;
}

void Links::connect(Link& link) {
  // The resolver has a thread of its own: getaddrinfo() blocks for seconds if a name server is
  // away.
  if (next_address_ == addresses_.size()) {
    std::optional<Result<std::vector<Address>>> found = resolver_.poll();
    const std::uint64_t now = clock_.now_ns();
    if (!std::exchange(resolving_, !found.has_value())) resolving_since_ns_ = now;
    if (resolving_ && now >= resolving_since_ns_ + options_.greet_ms * kNsPerMs)
      failure_ = {Code::kUnavailable, endpoint_.host + " takes long to be resolved"};
    if (resolving_) return;
    if (!found->ok()) return attempt_failed(found->status());
    addresses_ = *std::move(*found);
    next_address_ = 0;
    if (addresses_.empty())
      return attempt_failed({Code::kUnavailable, endpoint_.host + " has no address"});
  }
  breaker_.tried();
  Result<std::unique_ptr<Stream>> stream = open_stream(addresses_[next_address_++]);
  if (!stream.ok()) return attempt_failed(stream.status());
  link = Link();
  link.connection = std::make_unique<Connection>(*std::move(stream));
  link.connection->on_error = [this](Lane lane, const Reply& error) {
    listener_.answered(lane, error, true);
  };
  link.state = Link::State::kConnecting;
  link.since_ns = clock_.now_ns();
  pump(link);
}

Result<std::unique_ptr<Stream>> Links::open_stream(const Address& address) const {
  Result<std::unique_ptr<Stream>> socket = open_socket_stream(address);
  if (!socket.ok() || !options_.tls.enabled) return socket;
  return open_tls_stream(*std::move(socket), options_.tls, endpoint_.host);
}

// Tries the other addresses of a name at once, in turn; all addresses are one attempt.
void Links::attempt_failed(const Status& why) {
  failure_ = why;
  if (next_address_ < addresses_.size())
    breaker_.skipped();
  else
    breaker_.failed(clock_.now_ns());
}

void Links::fail(Link& link, Status why) {
  const bool attempt = link.state != Link::State::kReady;
  // A server that closes an idle connection is alive: reconnect at once; operations wait for the
  // connect.
  const std::uint64_t now = clock_.now_ns();
  const bool idle =
      !attempt && link.connection->commands() == 0 && now >= link.since_ns + kSettledNs;
  if (link.events != 0) poller_.forget(link.connection->stream().fd());
  std::unique_ptr<Connection> gone = std::move(link.connection);
  link = Link();
  past_sent_bytes_ += gone->sent_bytes;
  past_received_bytes_ += gone->received_bytes;
  if (attempt) {
    attempt_failed(why);
  } else {
    failure_ = idle ? Status() : why;
    next_address_ = addresses_.size();  // resolve the name again: the address may have changed
    breaker_.failed(now);
    // The cause may affect the other connections too: a ping finds out soon.
    for (Link& other : links_)
      if (!idle && other.state == Link::State::kReady && other.connection->commands() == 0)
        ping(other);
  }
  // Last: the callbacks of the lost commands may send new ones, and must find this link gone.
  gone->close(why);
}

void Links::restart(const Status& why) {
  for (Link& link : links_)
    if (link.state != Link::State::kNone) fail(link, why);
}

bool Links::ready() const {
  return std::ranges::any_of(links_,
                             [](const Link& link) { return link.state == Link::State::kReady; });
}

// The last connections are for writes.
bool Links::of_lane(std::size_t number, Lane lane) const {
  return count() == 1 || (number + writers(count()) >= count()) == (lane == Lane::kWrites);
}

// The fit of a connection, 0 is best. A body may use any write connection; other writes use their
// `writer`, to keep the order.
int Links::suits(std::size_t number, Lane lane, const Request& request) const {
  if (!of_lane(number, lane)) return 2;
  if (lane == Lane::kReads || !request.body.empty()) return 0;
  return count() - 1 - number == std::min(request.writer, writers(count()) - 1) ? 0 : 1;
}

Status Links::ask(Lane lane, Request request, bool asking) {
  Link* best = nullptr;
  int best_suits = 0;
  for (std::size_t i = 0; i < count(); ++i) {
    Link& link = links_[i];
    if (link.state != Link::State::kReady) continue;
    const int suits = this->suits(i, lane, request);
    // The fit comes before the load: the order of removals and records depends on the connection.
    if (best != nullptr && best_suits < suits) continue;
    const auto load = [](const Link& one) {
      return std::pair(one.connection->bytes(), one.connection->commands());
    };
    if (best == nullptr || suits < best_suits || load(link) < load(*best)) {
      best = &link;
      best_suits = suits;
    }
  }
  if (best == nullptr) return {Code::kUnavailable, "no connection to the server"};
  best->used_ns = clock_.now_ns();
  if (asking) {
    Request before;
    before.around.before = format_command(std::array<std::string_view, 1>{"ASKING"});
    before.expect.types = "+";
    // ASKING holds for the next command of the connection alone. The two are cancelled together.
    before.owner = request.owner;
    best->connection->ask(std::move(before), best->used_ns);
    request.with_former = true;
  }
  best->connection->ask(std::move(request), best->used_ns);
  return {};
}

// Closes a connection in the middle of a long payload: a reconnect is faster than the rest of the
// payload over a slow network. The last connection stays open, because its close would look like a
// server that is away.
void Links::cancel(std::uint64_t owner) {
  const auto is_ready = [](const Link& link) { return link.state == Link::State::kReady; };
  for (Link& link : links_)
    if (is_ready(link) &&
        !link.connection->cancel(owner, std::ranges::count_if(links_, is_ready) == 1))
      fail(link, {Code::kDeadlineExceeded, "a deadline passed in the middle of a payload"});
}

std::uint64_t Links::sent_bytes() const {
  std::uint64_t bytes = past_sent_bytes_;
  for (const Link& link : links_)
    bytes += link.connection != nullptr ? link.connection->sent_bytes : 0;
  return bytes;
}

std::uint64_t Links::received_bytes() const {
  std::uint64_t bytes = past_received_bytes_;
  for (const Link& link : links_)
    bytes += link.connection != nullptr ? link.connection->received_bytes : 0;
  return bytes;
}

}  // namespace larder::remote

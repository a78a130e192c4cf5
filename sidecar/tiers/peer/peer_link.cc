#include "sidecar/tiers/peer/peer_link.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "sidecar/base/time_units.h"
#include "sidecar/net/tls_stream.h"
#include "sidecar/tiers/peer/wire.h"

namespace larder::peer {
namespace {

using base::kNsPerMs;
// 16 KiB in progress_ms (500 ms) is 32 KiB a second. A peer that sends one byte at a time would
// otherwise keep reads open up to their deadlines.
constexpr std::uint64_t kLeastProgress = 16 << 10;

}  // namespace

PeerLink::PeerLink(const ClientOptions& options, const base::Clock& clock, net::Poller& poller,
                   net::Endpoint endpoint)
    : options_(options),
      clock_(clock),
      poller_(poller),
      endpoint_(std::move(endpoint)),
      resolver_(endpoint_, poller.wake_fd()),
      // The seed differs for each link. All links of all larderd retry at other times after a
      // peer's restart.
      breaker_(options.retry_ms, options.most_retry_ms,
               clock.now_ns() ^ reinterpret_cast<std::uintptr_t>(this)) {}

PeerLink::~PeerLink() {
  if (events_ != 0) poller_.forget(connection_->stream().fd());
}

void PeerLink::turn() {
  if (event_ || more_) pump();
  const std::uint64_t now_ns = clock_.now_ns();
  if (state_ == State::kReady) note_progress(now_ns);
  if (state_ == State::kNone) {
    // A peer of another pool or protocol is asked rarely: only a roll-out changes the answer.
    if (breaker_.may_try(now_ns) && now_ns >= refused_until_ns_) connect(now_ns);
  } else if (limit_ns() <= now_ns) {
    fail({Code::kDeadlineExceeded, "it does not answer"});
  } else if (state_ == State::kReady && connection_->commands() == 0 &&
             used_ns_ + options_.ping_ms * kNsPerMs <= now_ns) {
    // A PING finds a machine that vanished without closing its connections. It has the deadline
    // of a read.
    net::Request ping;
    ping.around.before = format_ping();
    ping.expect.types = "+";
    static_cast<void>(ask(std::move(ping)).ok());
  }
}

void PeerLink::flush() {
  if (state_ >= State::kHandshake && connection_ != nullptr && connection_->has_unsent()) pump();
}

void PeerLink::pump() {
  event_ = more_ = false;
  if (connection_ == nullptr) return;
  if (state_ == State::kConnecting) {
    const Result<bool> established = connection_->stream().establish();
    if (!established.ok()) return fail(established.status());
    if (!*established) return watch();
    greet(clock_.now_ns());
  }
  const Status status = connection_->pump(clock_.now_ns(), more_);
  if (!status.ok()) return fail(status);
  // The reply to HELLO sets `greeting_` inside pump(). The connection cannot close itself there:
  // its own code is still running.
  if (!greeting_.ok()) return fail(greeting_);
  watch();
}

void PeerLink::watch() {
  const std::uint32_t wanted = EPOLLIN | (connection_->wants_write() ? EPOLLOUT : 0U);
  if (wanted == events_) return;
  const bool anew = std::exchange(events_, wanted) == 0;
  if (const Status watched = poller_.watch(connection_->stream().fd(), wanted, anew, event_);
      !watched.ok())
    fail(watched);
}

void PeerLink::connect(std::uint64_t now_ns) {
  if (next_address_ == addresses_.size()) {
    std::optional<Result<std::vector<net::Address>>> found = resolver_.poll();
    resolving_ = !found.has_value();
    // Until then the state stays kNone, and next_ns() asks for no turn.
    if (resolving_) return;  // the end of the resolution wakes the thread
    if (!found->ok()) return attempt_failed(found->status());
    addresses_ = *std::move(*found);
    next_address_ = 0;
    if (addresses_.empty()) return attempt_failed({Code::kUnavailable, "it has no address"});
  }
  // Counted before the connect: a connect that hangs must not start another attempt.
  breaker_.tried();
  Result<std::unique_ptr<net::Stream>> stream = open_stream(addresses_[next_address_++]);
  if (!stream.ok()) return attempt_failed(stream.status());
  connection_ = std::make_unique<net::Connection>(*std::move(stream));
  state_ = State::kConnecting;
  since_ns_ = now_ns;
  greeting_ = {};
  pump();
}

Result<std::unique_ptr<net::Stream>> PeerLink::open_stream(const net::Address& address) const {
  Result<std::unique_ptr<net::Stream>> socket = net::open_socket_stream(address);
  if (!socket.ok() || !options_.tls.enabled) return socket;
  return net::open_tls_stream(*std::move(socket), options_.tls, endpoint_.host);
}

void PeerLink::greet(std::uint64_t now_ns) {
  state_ = State::kHandshake;
  since_ns_ = used_ns_ = now_ns;
  net::Request hello;
  hello.around.before = format_hello(options_.self);
  hello.expect.types = "*";
  hello.then = [this](const Status& lost, const net::Reply& reply) {
    if (!lost.ok()) return;
    const Result<Instance> other = parse_hello_reply(reply);
    greeting_ = other.status();
    // The server refuses another pool itself. The check here covers a server with a fault or of
    // another program.
    if (other.ok() && other->pool != options_.self.pool)
      greeting_ = {Code::kFailedPrecondition, "it is of another pool"};
    const std::uint64_t answered_ns = clock_.now_ns();
    if (!greeting_.ok()) {
      // Another address of the name may be of this pool.
      if (next_address_ == addresses_.size())
        refused_until_ns_ = answered_ns + options_.refused_ms * kNsPerMs;
      return;
    }
    other_ = *other;
    state_ = State::kReady;
    since_ns_ = answered_ns;
    next_address_ = 0;
    progress_ = {};
    breaker_.succeeded(answered_ns);
    failure_ = {};
  };
  connection_->ask(std::move(hello), now_ns);
}

bool PeerLink::answers_within(std::uint64_t ms) const {
  if (!ready()) return false;
  const std::uint64_t since = connection_->waiting_since_ns();
  return since == UINT64_MAX || clock_.now_ns() < since + ms * kNsPerMs;
}

void PeerLink::note_progress(std::uint64_t now_ns) {
  const std::uint64_t since = connection_->waiting_since_ns(), bytes = connection_->received_bytes;
  // A new oldest request starts a new time. Its bytes count from the moment when it became the
  // oldest.
  if (since != progress_.since_ns)
    progress_ = {since, bytes, since};
  else if (bytes >= progress_.bytes + kLeastProgress)  // mutation: peer-progress
    progress_ = {since, bytes, now_ns};
}

// The longest time in the current state; UINT64_MAX: unlimited.
std::uint64_t PeerLink::limit_ns() const {
  switch (state_) {
    case State::kNone:
    case State::kRetired: return UINT64_MAX;
    case State::kConnecting:
      return since_ns_ +
             (options_.tls.enabled ? options_.greet_ms : options_.connect_ms) * kNsPerMs;
    case State::kHandshake: return since_ns_ + options_.greet_ms * kNsPerMs;
    case State::kReady: break;
  }
  const std::uint64_t since = connection_->waiting_since_ns();
  if (since == UINT64_MAX) return UINT64_MAX;
  return (since == progress_.since_ns ? progress_.at_ns : since) + options_.progress_ms * kNsPerMs;
}

std::uint64_t PeerLink::next_ns() const {
  if (more_ || (state_ >= State::kHandshake && connection_ != nullptr && connection_->has_unsent()))
    return 0;
  if (state_ == State::kNone)
    return resolving_ ? UINT64_MAX : std::max(breaker_.next_ns(), refused_until_ns_);
  const std::uint64_t limit = limit_ns();
  const bool idle = state_ == State::kReady && connection_->commands() == 0;
  return idle ? std::min(limit, used_ns_ + options_.ping_ms * kNsPerMs) : limit;
}

std::int64_t PeerLink::valid_s() const {
  return connection_ == nullptr ? INT64_MAX : connection_->stream().valid_s();
}

Status PeerLink::ask(net::Request request) {
  if (!ready()) return {Code::kUnavailable, "no connection to the peer"};
  used_ns_ = clock_.now_ns();
  connection_->ask(std::move(request), used_ns_);
  return {};
}

void PeerLink::cancel(std::uint64_t owner) {
  // `true` keeps the connection in the middle of a payload: the rest is discarded, and reads of
  // other chunks go on.
  if (connection_ != nullptr && !connection_->cancel(owner, true))
    fail({Code::kDeadlineExceeded, "a deadline passed"});
}

void PeerLink::retire() {
  if (state_ == State::kRetired) return;
  if (connection_ != nullptr) fail({Code::kUnavailable, "it is no member"});
  state_ = State::kRetired;
  failure_ = {};
}

void PeerLink::resume() {
  if (retired()) state_ = State::kNone;
}

// Tries the other addresses of a name at once, in turn; all addresses are one attempt.
void PeerLink::attempt_failed(const Status& why) {
  if (next_address_ < addresses_.size()) return breaker_.skipped();
  failure_ = why;
  breaker_.failed(clock_.now_ns());
}

void PeerLink::fail(Status why) {
  // A failed attempt moves to the next address of the name. A broken connection resolves the name
  // again.
  const bool attempt = state_ != State::kReady;
  if (events_ != 0) poller_.forget(connection_->stream().fd());
  events_ = 0;
  event_ = more_ = false;
  greeting_ = {};
  progress_ = {};
  state_ = State::kNone;
  // The link forgets the connection before close() calls back: a callback that asks again finds no
  // connection, not one half closed.
  const std::unique_ptr<net::Connection> gone = std::move(connection_);
  past_sent_ += gone->sent_bytes;
  past_received_ += gone->received_bytes;
  if (attempt) {
    attempt_failed(why);
  } else {
    failure_ = why;
    next_address_ = addresses_.size();  // resolve the name again: the address may have changed
    breaker_.failed(clock_.now_ns());
  }
  gone->close(why);
}

}  // namespace larder::peer

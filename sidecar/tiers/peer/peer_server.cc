#include "sidecar/tiers/peer/peer_server.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

#include "sidecar/base/log_throttle.h"
#include "sidecar/net/tls_stream.h"

namespace larder::peer {
namespace {

constexpr std::uint64_t kMostWaitNs = 100'000'000;
// Readers of metrics see counters of at most 20 ms ago. The mutex is not taken in every turn.
constexpr std::uint64_t kPublishNs = 20'000'000;
// A flood of connections gets this share of a turn, and connected peers the rest.
constexpr int kAcceptsAtOnce = 64;
constexpr std::uint64_t kAcceptPauseNs = 100'000'000;

}  // namespace

PeerServer::PeerServer(const base::Clock& clock, const ServerOptions& options,
                       base::TcpListener listener)
    : clock_(clock),
      options_(options),
      listener_(std::move(listener)),
      budget_(options.bytes_per_s) {}

Result<std::unique_ptr<PeerServer>> PeerServer::start(const base::Clock& clock,
                                                      const ServerOptions& options) {
  // A missing file fails the start with its name, not each connection later.
  if (options.tls.enabled)
    if (Status status = net::check_tls_files(options.tls); !status.ok()) return status;
  Result<base::TcpListener> listener =
      base::listen_tcp(options.listen.host, options.listen.port, "peers.listen");
  if (!listener.ok()) return listener.status();
  std::unique_ptr<PeerServer> server(new PeerServer(clock, options, *std::move(listener)));
  if (Status status = server->exchange_.open(); !status.ok()) return status;
  if (Status status = server->poller_.open(); !status.ok()) return status;
  if (Status status = server->poller_.watch(server->listener_.socket.get(), EPOLLIN, true,
                                            server->accept_ready_);
      !status.ok())
    return status;
  server->exchange_.set_wake([raw = server.get()] { raw->poller_.wake(); });
  server->thread_ = std::thread([raw = server.get()] { raw->run(); });
  return server;
}

void PeerServer::stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  poller_.wake();
  thread_.join();
}

ServerCounters PeerServer::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void PeerServer::run() {
  ::prctl(PR_SET_NAME, "larder-serve");
  sigset_t broken_pipe;
  sigemptyset(&broken_pipe);
  sigaddset(&broken_pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe,
                    nullptr);  // OpenSSL writes to closed sockets without MSG_NOSIGNAL
  while (!stopping_) {
    poller_.wait(wait_ns(clock_.now_ns()));
    const std::uint64_t now_ns = clock_.now_ns();
    resume_accepting(now_ns);
    if (std::exchange(accept_ready_, false)) accept(now_ns);
    take_replies(now_ns);
    turn(now_ns);
    publish(now_ns);
  }
  for (auto at = connections_.begin(); at != connections_.end();) at = end(at);
  // The last counters count, whatever the time of the last publication.
  publish(UINT64_MAX);
}

void PeerServer::accept(std::uint64_t now_ns) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    base::Accepted accepted = base::accept_next(listener_.socket.get());
    if (!accepted.socket.valid()) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
        pause_accepting(now_ns, errno);
      return;
    }
    ++counting_.accepted;
    // One address gets half the connections at most. The other half stays for other peers, whatever
    // one machine does.
    const bool crowd = connections_of(accepted.peer) >= (options_.connections + 1) / 2;
    if (crowd ? !make_room(accepted.peer)
              : connections_.size() >= options_.connections && !make_room({})) {
      ++counting_.refused;
      continue;
    }
    std::unique_ptr<net::Stream> stream = net::stream_over(std::move(accepted.socket));
    if (options_.tls.enabled) {
      Result<std::unique_ptr<net::Stream>> tls =
          net::accept_tls_stream(std::move(stream), options_.tls);
      if (!tls.ok()) {
        base::log_refusal("peers.listen", tls.status().text(), base::LogLevel::kWarning,
                          "peers.listen: no connection is accepted: " + tls.status().text());
        continue;
      }
      stream = *std::move(tls);
    }
    const std::uint64_t number = ++last_number_;
    auto connection = std::make_unique<ServerConnection>(services_, number, std::move(stream),
                                                         std::move(accepted.peer), now_ns);
    // The first bytes may have arrived before the poller watches the socket.
    connection->ready = true;
    connections_.emplace(number, std::move(connection));
  }
  accept_ready_ = true;
}

// Descriptors or memory ran out. The socket stays readable: the thread would spin without a pause.
void PeerServer::pause_accepting(std::uint64_t now_ns, int error) {
  poller_.forget(listener_.socket.get());  // mutation: peer-accept-pause
  accept_again_ns_ = now_ns + kAcceptPauseNs;
  const std::string why = std::generic_category().message(error);
  base::log_refusal("peers.listen", why, base::LogLevel::kError,
                    "peers.listen: no connection is accepted: " + why);
}

void PeerServer::resume_accepting(std::uint64_t now_ns) {
  if (accept_again_ns_ == 0 || now_ns < accept_again_ns_) return;
  const Status watched = poller_.watch(listener_.socket.get(), EPOLLIN, true, accept_ready_);
  accept_again_ns_ = watched.ok() ? 0 : now_ns + kAcceptPauseNs;
}

std::size_t PeerServer::connections_of(const std::string& address) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      connections_, [&](const auto& one) { return one.second->address() == address; }));
}

// Closes one connection (of this address, unless empty) for a new one: a connection without HELLO,
// else an idle one that holds nothing. Of these, the oldest of the address that has the most: a
// flood crowds out itself. False: all connections are in use.
bool PeerServer::make_room(const std::string& address) {
  // Connections with HELLO give way last: a flood without HELLO cannot end reads.
  for (const bool greeted : {false, true}) {
    const auto gives_way = [&](const ServerConnection& one) {
      // A ready one has bytes that this turn has not read yet: perhaps a question.
      return one.greeted() == greeted && (!greeted || (one.idle() && !one.ready)) &&
             (address.empty() || one.address() == address);
    };
    std::map<std::string, std::size_t> of_address;
    for (const auto& [number, connection] : connections_)
      if (gives_way(*connection)) ++of_address[connection->address()];
    const auto most =
        std::ranges::max_element(of_address, {}, [](const auto& one) { return one.second; });
    if (most == of_address.end()) continue;
    auto oldest = connections_.end();
    for (auto at = connections_.begin(); at != connections_.end(); ++at)
      if (gives_way(*at->second) && at->second->address() == most->first &&
          (oldest == connections_.end() || at->second->asked_ns() < oldest->second->asked_ns()))
        oldest = at;
    ++counting_.refused;
    end(oldest);
    return true;
  }
  return false;
}

// Closes the oldest connection of a peer with too many: a peer that comes back has left it behind.
void PeerServer::bound_peer(const ServerConnection& newest) {
  std::size_t count = 0;
  auto oldest = connections_.end();
  for (auto at = connections_.begin(); at != connections_.end(); ++at) {
    const ServerConnection& one = *at->second;
    if (!one.greeted() || one.other()->id != newest.other()->id ||
        // INSTANCE is no secret. A peer that claims the INSTANCE of another closes only connections
        // of its own address.
        one.address() != newest.address())
      continue;
    ++count;
    if (&one != &newest &&
        (oldest == connections_.end() || one.asked_ns() < oldest->second->asked_ns()))
      oldest = at;
  }
  if (count <= options_.peer_connections || oldest == connections_.end()) return;
  ++counting_.refused;
  end(oldest);
}

void PeerServer::take_replies(std::uint64_t now_ns) {
  for (HoldReply& reply : exchange_.take_replies()) {
    const auto found = connections_.find(reply.connection);
    if (found != connections_.end()) {
      found->second->answer(std::move(reply), now_ns);
      found->second->ready = true;
      continue;
    }
    // The store held chunks for a connection that closed meanwhile. Without this way back the slots
    // stay held forever.
    std::vector<HeldChunk> held;  // the connection is closed
    for (const std::optional<HeldChunk>& chunk : reply.chunks)
      if (chunk && chunk->held) held.push_back(*chunk);
    exchange_.give_back(std::move(held));
  }
}

void PeerServer::turn(std::uint64_t now_ns) {
  for (auto at = connections_.begin(); at != connections_.end();) {
    ServerConnection& connection = *at->second;
    if (!connection.ready && connection.next_ns() > now_ns) {
      ++at;
      continue;
    }
    const bool greeted = connection.greeted();
    // Any fault ends the connection: the stream's place in the protocol is in doubt. The asking
    // peer connects again.
    const bool well = connection.turn(now_ns).ok() && watch(connection).ok();
    if (well && connection.greeted() && !greeted) bound_peer(connection);
    at = well ? std::next(at) : end(at);
  }
}

Status PeerServer::watch(ServerConnection& connection) const {
  const std::uint32_t wanted = connection.events();
  if (wanted == connection.watched) return {};
  const bool anew = std::exchange(connection.watched, wanted) == 0;
  return poller_.watch(connection.fd(), wanted, anew, connection.ready);
}

PeerServer::Connections::iterator PeerServer::end(Connections::iterator at) {
  if (at->second->watched != 0) poller_.forget(at->second->fd());
  return connections_.erase(at);
}

std::uint64_t PeerServer::wait_ns(std::uint64_t now_ns) const {
  if (accept_ready_) return 0;
  std::uint64_t next = now_ns + kMostWaitNs;
  if (accept_again_ns_ != 0) next = std::min(next, accept_again_ns_);
  for (const auto& [number, connection] : connections_) {
    if (connection->ready) return 0;
    next = std::min(next, connection->next_ns());
  }
  return next <= now_ns ? 0 : next - now_ns;
}

void PeerServer::publish(std::uint64_t now_ns) {
  if (now_ns < publish_ns_) return;
  publish_ns_ = now_ns + kPublishNs;
  std::set<std::string> peers;
  counting_.held_bytes = holds_.bytes();
  for (const auto& [number, connection] : connections_) {
    if (connection->greeted()) peers.insert(connection->other()->id);
  }
  counting_.connections = connections_.size();
  counting_.peers = peers.size();
  const std::lock_guard lock(mutex_);
  counters_ = counting_;
}

}  // namespace larder::peer

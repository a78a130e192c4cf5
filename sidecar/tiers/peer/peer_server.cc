#include "sidecar/tiers/peer/peer_server.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <set>
#include <utility>

#include "sidecar/net/tls_stream.h"

namespace larder::peer {
namespace {

constexpr std::uint64_t kMostWaitNs = 100'000'000;
constexpr std::uint64_t kPublishNs = 20'000'000;
constexpr int kAcceptsAtOnce = 64;

}  // namespace

PeerServer::PeerServer(const base::Clock& clock, const ServerOptions& options,
                       base::TcpListener listener)
    : clock_(clock),
      options_(options),
      listener_(std::move(listener)),
      budget_(options.bytes_per_s) {}

Result<std::unique_ptr<PeerServer>> PeerServer::start(const base::Clock& clock,
                                                      const ServerOptions& options) {
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
    if (std::exchange(accept_ready_, false)) accept(now_ns);
    take_replies(now_ns);
    turn(now_ns);
    publish(now_ns);
  }
  for (auto at = connections_.begin(); at != connections_.end();) at = end(at);
  publish(UINT64_MAX);
}

void PeerServer::accept(std::uint64_t now_ns) {
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    base::Accepted accepted = base::accept_next(listener_.socket.get());
    if (!accepted.socket.valid()) return;
    ++counting_.accepted;
    if (connections_.size() >= options_.connections && !make_room()) {
      ++counting_.refused;
      continue;
    }
    std::unique_ptr<net::Stream> stream = net::stream_over(std::move(accepted.socket));
    if (options_.tls.enabled) {
      Result<std::unique_ptr<net::Stream>> tls =
          net::accept_tls_stream(std::move(stream), options_.tls);
      if (!tls.ok()) continue;
      stream = *std::move(tls);
    }
    const std::uint64_t number = ++last_number_;
    auto connection = std::make_unique<ServerConnection>(services_, number, std::move(stream),
                                                         std::move(accepted.peer), now_ns);
    connection->ready = true;
    connections_.emplace(number, std::move(connection));
  }
  accept_ready_ = true;
}

// Closes the oldest connection without HELLO, of the address that has the most of them: a flood
// crowds out itself. False: all connections said HELLO.
bool PeerServer::make_room() {
  std::map<std::string, std::size_t> of_address;
  for (const auto& [number, connection] : connections_)
    if (!connection->greeted()) ++of_address[connection->address()];
  const auto most =
      std::ranges::max_element(of_address, {}, [](const auto& one) { return one.second; });
  if (most == of_address.end()) return false;
  const auto oldest = std::ranges::find_if(connections_, [&](const auto& one) {
    return !one.second->greeted() && one.second->address() == most->first;
  });
  ++counting_.refused;
  end(oldest);
  return true;
}

void PeerServer::take_replies(std::uint64_t now_ns) {
  for (HoldReply& reply : exchange_.take_replies()) {
    const auto found = connections_.find(reply.connection);
    if (found != connections_.end()) {
      found->second->answer(std::move(reply), now_ns);
      found->second->ready = true;
      continue;
    }
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
    const bool well = connection.turn(now_ns).ok() && watch(connection).ok();
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
  counting_.held_bytes = 0;
  for (const auto& [number, connection] : connections_) {
    if (connection->greeted()) peers.insert(connection->other()->id);
    counting_.held_bytes += connection->held_bytes();
  }
  counting_.connections = connections_.size();
  counting_.peers = peers.size();
  const std::lock_guard lock(mutex_);
  counters_ = counting_;
}

}  // namespace larder::peer

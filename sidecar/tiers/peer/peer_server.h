// PeerServer: serves the chunks in memory to the other larderd of the pool. One thread accepts
// connections and moves bytes; the thread of the store answers the requests of exchange().
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "sidecar/base/byte_budget.h"
#include "sidecar/base/clock.h"
#include "sidecar/base/tcp_listener.h"
#include "sidecar/net/poller.h"
#include "sidecar/tiers/peer/hold_exchange.h"
#include "sidecar/tiers/peer/options.h"
#include "sidecar/tiers/peer/server_connection.h"

namespace larder::peer {

class PeerServer {
 public:
  // Errors name peers.listen or a file of TLS. The clock outlives the server.
  static Result<std::unique_ptr<PeerServer>> start(const base::Clock& clock,
                                                   const ServerOptions& options);
  ~PeerServer() { stop(); }
  PeerServer(const PeerServer&) = delete;

  // Closes all connections and ends the thread. Afterwards no byte of a slot is read.
  void stop();

  HoldExchange& exchange() { return exchange_; }
  const std::string& address() const { return listener_.address; }  // with the real port
  ServerCounters counters() const;                                  // thread-safe

 private:
  PeerServer(const base::Clock& clock, const ServerOptions& options, base::TcpListener listener);

  using Connections = std::map<std::uint64_t, std::unique_ptr<ServerConnection>>;
  void run();
  void accept(std::uint64_t now_ns);
  void pause_accepting(std::uint64_t now_ns, int error);
  void resume_accepting(std::uint64_t now_ns);
  std::size_t connections_of(const std::string& address) const;
  bool make_room(const std::string& address);
  void bound_peer(const ServerConnection& newest);
  void take_replies(std::uint64_t now_ns);
  void turn(std::uint64_t now_ns);
  Status watch(ServerConnection& connection) const;
  Connections::iterator end(Connections::iterator at);
  std::uint64_t wait_ns(std::uint64_t now_ns) const;
  void publish(std::uint64_t now_ns);

  const base::Clock& clock_;
  const ServerOptions options_;
  HoldExchange exchange_;
  HoldTable holds_{exchange_};
  base::TcpListener listener_;
  net::Poller poller_;
  base::ByteBudget budget_;
  ServerCounters counting_;  // of the thread
  ServerConnection::Services services_{options_, exchange_, holds_, budget_, counting_};
  Connections connections_;  // by number
  std::uint64_t last_number_ = 0;
  bool accept_ready_ = false;
  std::uint64_t accept_again_ns_ = 0;  // the end of a pause; 0: none
  std::uint64_t publish_ns_ = 0;       // the next time

  mutable std::mutex mutex_;
  ServerCounters counters_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace larder::peer

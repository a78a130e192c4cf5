// One larderd's server over chunks of the test, and the tier of another that asks it,
// over the loopback.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "shim/base/fd.h"
#include "sidecar/tiers/peer/peer_server.h"
#include "sidecar/tiers/peer/peer_tier.h"
#include "tests/conformance/tier_chunks.h"
#include "tests/eventually.h"
#include "tests/unit/tiers/peer/chunk_holder.h"

namespace larder::peer::testing_support {

inline std::uint16_t port_of(const std::string& address) {
  return static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
}

// A server and the memory behind it.
class Holder {
 public:
  explicit Holder(const base::Clock& clock, ServerOptions options = {}) {
    if (options.self.pool.empty()) options.self = make_instance("chat", 1);
    options.listen = {"127.0.0.1", options.listen.port};
    Result<std::unique_ptr<PeerServer>> started = PeerServer::start(clock, options);
    EXPECT_TRUE(started.ok()) << started.status().to_string();
    server = *std::move(started);
    memory = std::make_unique<ChunkHolder>(server->exchange());
  }
  ~Holder() { server->stop(); }
  void put(std::uint64_t number, std::uint64_t generation = 1,
           std::uint64_t payload = tiers::testing_support::kPayloadBytes) {
    const std::uint64_t piece = std::min(payload, tiers::testing_support::kPieceBytes);
    tiers::testing_support::Slot slot(protocol::slot_bytes(payload, piece));
    const tiers::ChunkFacts facts =
        tiers::testing_support::fill(slot.span(), number, generation, payload, piece);
    memory->put(tiers::testing_support::key_of(number), facts, slot.span());
  }
  net::Endpoint endpoint() const { return {"127.0.0.1", port_of(server->address())}; }

  std::unique_ptr<PeerServer> server;
  std::unique_ptr<ChunkHolder> memory;
};

// Patient with probes: a busy machine may stop for a while, which must fail no test.
inline ClientOptions client_options(std::vector<net::Endpoint> members) {
  ClientOptions options;
  options.probe_ms = 1000;
  options.self = make_instance("chat", 2);
  options.members = std::move(members);
  return options;
}

// The tier that asks, as the loop drives it.
class Asker {
 public:
  Asker(const base::Clock& clock, const ClientOptions& options) {
    Result<std::unique_ptr<tiers::Tier>> opened = open_peer_tier(clock, options);
    EXPECT_TRUE(opened.ok()) << opened.status().to_string();
    tier = *std::move(opened);
    loop.emplace(*tier, clock);
  }
  bool reaches(std::uint32_t members) const {
    return test::eventually([&] { return tier->state().servers_reachable == members; }, 10'000, 2);
  }
  // Which of these numbers are there, and how long it took.
  std::vector<bool> probe(std::uint64_t from, std::uint64_t to) {
    std::vector<tiers::ChunkKey> keys;
    for (std::uint64_t n = from; n <= to; ++n) keys.push_back(tiers::testing_support::key_of(n));
    return loop->probe(keys);
  }

  std::unique_ptr<tiers::Tier> tier;
  std::optional<tiers::testing_support::Loop> loop;
};

// A plain client, which may say what it likes.
class RawClient {
 public:
  // `buffer`: how much the kernel receives ahead; 0: as much as it likes.
  explicit RawClient(std::uint16_t port, int buffer = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (buffer != 0) ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(port);
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ =
        ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&where), sizeof(where)) == 0;
    const timeval most{10, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
  }
  bool connected() const { return connected_; }
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // So many bytes; fewer: the end.
  std::string receive(std::size_t bytes) const {
    std::string got(bytes, '\0');
    std::size_t at = 0;
    while (at < bytes) {
      const ssize_t more = ::recv(socket_.get(), got.data() + at, bytes - at, 0);
      if (more <= 0) break;
      at += static_cast<std::size_t>(more);
    }
    got.resize(at);
    return got;
  }
  std::string line() const {
    std::string got;
    while (!got.ends_with("\r\n")) {
      const std::string one = receive(1);
      if (one.empty()) break;
      got += one;
    }
    return got;
  }
  // Whether the server ends the connection.
  bool ended() const {
    char byte = 0;
    return ::recv(socket_.get(), &byte, 1, 0) <= 0;
  }
  void hello(const std::string& pool = "chat", const std::string& id = "raw") const {
    ASSERT_TRUE(send(format_hello({pool, id, 1})));
    ASSERT_EQ(line(), "*5\r\n");
    for (int i = 0; i < 10; ++i) ASSERT_FALSE(line().empty());
  }
  void close() { socket_.reset(); }

 private:
  Fd socket_;
  bool connected_ = false;
};

}  // namespace larder::peer::testing_support

// The options of both halves of the peer tier. Errors name a field as in the configuration:
// peers.members, peers.ca_file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sidecar/net/endpoint.h"
#include "sidecar/tiers/peer/wire.h"
#include "sidecar/tiers/tier.h"

namespace larder::config {
struct Config;
}

namespace larder::peer {

// The half that asks.
struct ClientOptions {
  Instance self;
  // Each host one member; with by_dns each address of the hosts.
  std::vector<net::Endpoint> members;
  bool by_dns = false;
  std::size_t fanout = 16;  // the most members that are asked
  net::TlsOptions tls;

  std::uint64_t connect_ms = 200;
  std::uint64_t greet_ms = 500;  // TLS and HELLO
  std::uint64_t probe_ms = 50;   // a member without an answer by then counts as late
  // A connection with an open request that moves less than 16 KiB in this time is dead.
  std::uint64_t progress_ms = 500;
  std::uint64_t ping_ms = 1000;  // of an idle connection
  std::uint64_t retry_ms = 50, most_retry_ms = 300;
  std::uint64_t refused_ms = 5000;  // the next attempt after another pool or protocol
  std::uint64_t resolve_ms = 5000;  // between two questions to DNS
  std::uint64_t self_ms = 30'000;   // until an address of this larderd is asked for its name again
  std::uint32_t hold_ms = kMostHoldMs;

  std::uint64_t accepted_bytes = 256ULL << 20;  // of gets in progress
  std::uint32_t accepted_operations = 1024;
  std::uint64_t read_bytes_in_flight = 32ULL << 20;  // of a member: below, another chunk is begun
  std::size_t known_chunks = 1 << 16;                // beyond, the oldest are forgotten

  // Hears of every chunk that a member was found to have.
  std::shared_ptr<tiers::Residents> residents;
};

// The half that serves.
struct ServerOptions {
  Instance self;
  net::Endpoint listen;  // host "": every address of the machine; port 0: a free port
  net::TlsOptions tls;
  std::uint64_t bytes_per_s = 0;  // of payloads, to all peers; 0: no limit

  std::size_t connections = 256;     // of one address at most half of them
  std::size_t peer_connections = 8;  // of one peer
  std::uint64_t greet_ms = 1000;     // TLS and HELLO
  std::uint64_t stall_ms = 2000;     // a peer that receives nothing for so long is closed
  std::uint64_t idle_ms = 30'000;
};

ClientOptions client_options_of(const config::Config& config, const Instance& self);
ServerOptions server_options_of(const config::Config& config, const Instance& self);

// This run of larderd: the pool, a random id, the epoch of the index.
Instance make_instance(const std::string& pool, std::uint64_t epoch);

}  // namespace larder::peer

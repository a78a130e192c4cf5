// RemoteOptions: everything the remote tier can be told. Errors name a field as the configuration does: backend.url, backend.prefix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sidecar/tiers/tier.h"

namespace larder::config {
struct BackendConfig;
}

namespace larder::remote {

// Which kind of installation it is. Each recognises the others, and says so.
enum class Mode : std::uint8_t { kStandalone, kSentinel, kCluster };

struct Endpoint {
  std::string host;  // a name, or an IPv4 or IPv6 address
  std::uint16_t port = 6379;
  std::string unix_path = {};  // in place of both: a standalone server alone
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// "host:6379", "[::1]:6379", "/run/redis.sock".
std::string text_of(const Endpoint& endpoint);

// Files are read anew at each connect, so that what was rotated is used without a restart.
struct TlsOptions {
  bool enabled = false;
  std::string ca_file;      // PEM: these authorities and no others; empty: those of the system
  std::string cert_file;    // the client's own, with its key; both or none
  std::string key_file;     // without a passphrase
  std::string server_name;  // whom the certificate must name; empty: the host that is connected to
};

struct RemoteOptions {
  Mode mode = Mode::kStandalone;
  std::string host;  // standalone: a name, or an IPv4 or IPv6 address
  std::uint16_t port = 6379;
  std::string unix_path;            // in place of host and port
  std::vector<Endpoint> endpoints;  // 1 to 32 Sentinels, or nodes of the Cluster, which tells the others
  std::string sentinel_master;      // the name under which the Sentinels watch over it
  std::string sentinel_user;        // the Sentinels' own: they have another list of users than what they watch over
  std::string sentinel_password_file;
  TlsOptions tls;
  std::string user;               // empty: the server's default user
  std::string password_file;      // empty: no password; a newline at its end does not count
  std::uint32_t database = 0;     // a Cluster has this one alone
  std::string prefix = "larder";  // of all keys: one for each pool. Letters, digits, "_", "." and "-"
  std::uint64_t ttl_ms = 0;       // what was put longer ago is gone; 0: the server alone decides

  bool read_replicas = false;  // of a Cluster: half of the parts of a chunk are asked of replicas, where there are some

  std::uint32_t connections = 3;                // to each server, 1 to 4; beyond one the last half is for what is written
  std::uint64_t accepted_bytes = 256ULL << 20;  // of puts and gets that have not ended
  std::uint32_t accepted_operations = 1024;
  std::uint64_t read_bytes_in_flight = 16ULL << 20;  // while fewer are on their way another chunk is begun
  std::uint64_t write_bytes_in_flight = 8ULL << 20;
  std::size_t known_chunks = 1 << 18;  // that probe() tells of; beyond that the oldest are forgotten here

  std::uint64_t connect_ms = 500;  // for a connection to be there
  std::uint64_t greet_ms = 1000;   // and for the server to have answered the first words on it, TLS and password included
  std::uint64_t answer_ms =
      1000;  // a server that is longer in answering one command, or in moving 16 KiB of it, is taken for dead
  std::uint64_t ping_ms =
      1000;  // a connection on which nothing was asked for so long is asked: servers close idle ones after `timeout`
  std::uint64_t retry_ms = 50;  // after a failure; doubles up to
  std::uint64_t most_retry_ms = 300;
  // After a refusal of a chunk: see write_gate.h.
  std::uint64_t refused_ms = 1000;
  std::uint64_t most_refused_ms = 300'000;
  std::uint64_t trial_bytes_per_s = 8 << 10;

  // Told of every chunk that becomes known, by a put, a get or a look.
  std::shared_ptr<tiers::Residents> residents;
};

// What the configuration says of them; the rest at its default.
RemoteOptions options_of(const config::BackendConfig& backend);

}  // namespace larder::remote

// RemoteOptions: all options of the remote tier. Errors name a field as in the configuration:
// backend.url, backend.prefix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sidecar/tiers/remote/resp/wire.h"
#include "sidecar/tiers/tier.h"

namespace larder::config {
struct BackendConfig;
}

namespace larder::remote {

// The kind of installation. Each kind recognises the others, and the error names the other kind.
enum class Mode : std::uint8_t { kStandalone, kSentinel, kCluster };

struct RemoteOptions {
  Mode mode = Mode::kStandalone;
  std::string host;  // standalone: a name, or an IPv4 or IPv6 address
  std::uint16_t port = 6379;
  std::string unix_path;  // in place of host and port
  std::vector<Endpoint>
      endpoints;                // 1 to 32 Sentinels, or nodes of the Cluster, which list the others
  std::string sentinel_master;  // the name of the master at the Sentinels
  std::string sentinel_user;    // a user of the Sentinels, which have a user list of their own
  std::string sentinel_password_file;
  TlsOptions tls;
  std::string user;            // empty: the server's default user
  std::string password_file;   // empty: no password; a final newline is ignored
  std::uint32_t database = 0;  // a Cluster has only database 0
  std::string prefix =
      "larder";              // of all keys, one for each pool. Letters, digits, "_", "." and "-"
  std::uint64_t ttl_ms = 0;  // older chunks are gone; 0: the server alone decides

  // Cluster only: half of the parts of a chunk come from replicas, if any
  bool read_replicas = false;

  std::uint32_t connections = 3;  // to each server, 1 to 4; of several, the last half is for writes
  std::uint64_t accepted_bytes = 256ULL << 20;  // of puts and gets in progress
  std::uint32_t accepted_operations = 1024;
  std::uint64_t read_bytes_in_flight = 16ULL << 20;  // below this, another chunk is begun
  std::uint64_t write_bytes_in_flight = 8ULL << 20;
  std::size_t known_chunks = 1 << 18;  // for probe(); beyond, the oldest are forgotten

  std::uint64_t connect_ms = 500;  // deadline of a connect
  std::uint64_t greet_ms = 1000;   // deadline of the handshake, with TLS and password
  // A server that needs longer to answer one command, or to move 16 KiB of one command,
  // counts as dead.
  std::uint64_t answer_ms = 1000;
  // An idle connection is pinged after this time,
  // because servers close idle connections after their `timeout`.
  std::uint64_t ping_ms = 1000;
  std::uint64_t retry_ms = 50;  // after a failure; doubles up to
  std::uint64_t most_retry_ms = 300;
  // After the refusal of a chunk, see write_gate.h.
  std::uint64_t refused_ms = 1000;
  std::uint64_t most_refused_ms = 300'000;
  std::uint64_t trial_bytes_per_s = 8 << 10;

  // Hears of every chunk that becomes known, by a put, a get or a probe.
  std::shared_ptr<tiers::Residents> residents;
};

// The options of the configuration; other options keep their defaults.
RemoteOptions options_of(const config::BackendConfig& backend);

}  // namespace larder::remote

// Facts and speed of one server, asked with the commands of the backend tier. For `larderctl
// backend check` and the operator. The check measures; backend_diagnostics.h judges.
// installation_check.h asks all servers of an installation.
//
// Replies contribute only known words, numbers and addresses: a hostile server could send back the
// password.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "shim/base/status.h"
#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/options.h"
#include "sidecar/tiers/remote/resp/handshake.h"
#include "sidecar/tiers/remote/topology/slots.h"

namespace larder::backend_check {

struct ServerFacts {
  // The step that `failure` ended. Facts of later steps are unknown.
  enum class Step : std::uint8_t { kConnect, kGreet, kDatabase, kMode, kUse, kNone };
  Step ended = Step::kNone;
  Status failure;

  bool local = false;                     // the server is on this machine
  std::uint64_t connect_ns = 0;           // from the start of the connection to the HELLO reply
  std::string product, version;           // "Valkey", "8.0.1"; empty here and below: unknown
  std::string mode, role;                 // standalone, cluster or sentinel; master or replica
  std::optional<std::uint64_t> replicas;  // connected replicas; of a Sentinel: known replicas
  std::optional<std::uint64_t> databases, max_bytes, used_bytes, machine_bytes, io_threads;
  std::string policy;  // maxmemory-policy
  std::optional<bool> append_only, snapshots;

  // Of a Sentinel.
  std::optional<remote::Endpoint> named;  // the master with the configured name
  std::optional<std::uint64_t> quorum, other_sentinels;
  // Of a node of a Cluster.
  std::optional<std::vector<remote::SlotRange>> map;
  std::optional<bool> full_coverage;  // cluster-require-full-coverage

  std::vector<std::string>
      missing;    // commands of the tier that the user may not run, or the server lacks
  Status writes;  // an error: the reason for refused writes
  struct Pings {
    std::size_t count = 0;
    std::uint64_t p50_ns = 0, p99_ns = 0;
  } pings;
  std::uint64_t set_bytes_per_s = 0,
                get_bytes_per_s = 0;  // for values of kPartBytes; 0: not measured
};

// A server, and the extent of its check.
struct ServerToCheck {
  remote::Kind kind = remote::Kind::kStandalone;
  remote::Endpoint endpoint;
  // Of a node: its slots. A node without slots is asked for its identity and the Cluster's map
  // only.
  std::vector<remote::SlotRange> slots = {};
  std::uint64_t end_ns = 0;   // deadline of the whole check
  std::uint64_t share = 1;    // divisor of the time for measurements
  bool rates = true;          // false: the check moves no values
  std::stop_token stop = {};  // ends the check at once (kUnavailable)
};

// Writes keys PREFIX:check:... and removes them. Keys that cannot be removed expire after 20 s.
// REQUIRES: SIGPIPE is blocked or ignored.
ServerFacts check_server(const remote::RemoteOptions& options, const ServerToCheck& server,
                         const base::Clock& clock);

}  // namespace larder::backend_check

// What one server says of itself, and how fast it is, asked as the tier asks it: for `larderctl backend check`. It takes and
// measures, and judges nothing. Of all servers of an installation: installation_check.h.
//
// Of what a server says only known words, numbers and addresses are taken over: a hostile one could send back the password.
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
  // What `failure` ended; all that comes after it is not known.
  enum class Step : std::uint8_t { kConnect, kGreet, kDatabase, kMode, kUse, kNone };
  Step ended = Step::kNone;
  Status failure;

  bool local = false;                     // on this machine
  std::uint64_t connect_ns = 0;           // until it was connected and greeted
  std::string product, version;           // "Valkey", "8.0.1"; empty here and below: not told
  std::string mode, role;                 // standalone, cluster or sentinel; master or replica
  std::optional<std::uint64_t> replicas;  // connected; of a Sentinel: known
  std::optional<std::uint64_t> databases, max_bytes, used_bytes, machine_bytes, io_threads;
  std::string policy;  // maxmemory-policy
  std::optional<bool> append_only, snapshots;

  // Of a Sentinel.
  std::optional<remote::Endpoint> named;  // the master of the name that was asked for
  std::optional<std::uint64_t> quorum, other_sentinels;
  // Of a node of a Cluster.
  std::optional<std::vector<remote::SlotRange>> map;
  std::optional<bool> full_coverage;  // cluster-require-full-coverage

  std::vector<std::string> missing;  // commands that Larder needs and that the user may not run, or the server has not
  Status writes;                     // why it takes none
  struct Pings {
    std::size_t count = 0;
    std::uint64_t p50_ns = 0, p99_ns = 0;
  } pings;
  std::uint64_t set_bytes_per_s = 0, get_bytes_per_s = 0;  // of values as large as the parts that Larder writes; 0: not measured
};

// Which server, and what for.
struct ServerToCheck {
  remote::Kind kind = remote::Kind::kStandalone;
  remote::Endpoint endpoint;
  std::vector<remote::SlotRange> slots =
      {};                     // of a node: those that it serves; none: it is asked who it is, for the map, and nothing more
  std::uint64_t end_ns = 0;   // when all must be over
  std::uint64_t share = 1;    // measuring takes so many times less time
  bool rates = true;          // false: no values are moved
  std::stop_token stop = {};  // ends it at once (kUnavailable)
};

// Keys: PREFIX:check:..., which are removed again, and live for seconds where that fails.
// REQUIRES: SIGPIPE is blocked or ignored.
ServerFacts check_server(const remote::RemoteOptions& options, const ServerToCheck& server, const base::Clock& clock);

}  // namespace larder::backend_check

// Facts of all servers of an installation: a standalone server; the Sentinels and their master; or
// the masters of a Cluster. For `larderctl backend check` and the operator. The check measures;
// installation_diagnostics.h judges.
#pragma once

#include <cstddef>
#include <stop_token>
#include <vector>

#include "sidecar/backend_check/server_check.h"
#include "sidecar/base/clock.h"
#include "sidecar/tiers/remote/options.h"

namespace larder::backend_check {

struct CheckedServer {
  remote::Endpoint endpoint;
  ServerFacts facts;
  std::size_t slots = 0;  // number of slots of a Cluster's master
};

struct InstallationFacts {
  remote::Mode mode = remote::Mode::kStandalone;
  std::vector<CheckedServer> sentinels;  // all Sentinels of the configuration
  // Configured nodes of a Cluster that gave no map. The check ends at the first node with a map,
  // and later nodes are not asked.
  std::vector<CheckedServer> mute_nodes;
  // The standalone server, the master, or the Cluster's masters; empty: no master is known.
  std::vector<CheckedServer> servers;
  std::size_t unserved_slots = 0;  // slots of a Cluster without a master
};

// The extent of the measurement. kAll moves up to 128 MiB to each server and back; the operator,
// which checks every 30 s, takes kAnswersAlone.
enum class Measured { kAll, kAnswersAlone };

// Asks one server after the other; takes 20 s at most. `stop` ends the check at once, and the
// incomplete facts must not be judged.
// REQUIRES: SIGPIPE is blocked or ignored.
InstallationFacts check_installation(const remote::RemoteOptions& options, const base::Clock& clock,
                                     Measured measured = Measured::kAll,
                                     const std::stop_token& stop = {});

// The master that most Sentinels name; nullopt: no Sentinel names a master.
std::optional<remote::Endpoint> named_master(const InstallationFacts& facts);

}  // namespace larder::backend_check

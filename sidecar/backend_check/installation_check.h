// What all servers of an installation say of themselves: a standalone server, the Sentinels and the master whom they name, or the
// masters of a Cluster. For `larderctl backend check`: it takes and measures, and judges nothing.
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
  std::size_t slots = 0;  // of a Cluster's master
};

struct InstallationFacts {
  remote::Mode mode = remote::Mode::kStandalone;
  std::vector<CheckedServer> sentinels;  // all that are named
  // Nodes of a Cluster that are named, and did not tell who the others are. Where one has told, those that were asked before it.
  std::vector<CheckedServer> mute_nodes;
  std::vector<CheckedServer> servers;  // the standalone server, the master, or the Cluster's masters; none: nobody named any
  std::size_t unserved_slots = 0;      // of a Cluster
};

// How much is measured: rates move up to 128 MiB to each server and back. Who asks again and again wants answers alone.
enum class Measured { kAll, kAnswersAlone };

// One server after the other, 20 s at most. Where `stop` is asked for it ends at once, and what it has found by then says nothing.
// REQUIRES: SIGPIPE is blocked or ignored.
InstallationFacts check_installation(const remote::RemoteOptions& options, const base::Clock& clock,
                                     Measured measured = Measured::kAll, const std::stop_token& stop = {});

// Whom most of the Sentinels name; nothing: nobody is named.
std::optional<remote::Endpoint> named_master(const InstallationFacts& facts);

}  // namespace larder::backend_check

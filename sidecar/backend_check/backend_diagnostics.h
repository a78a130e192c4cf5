// The faults of one server for the use by larderd, and the fix for each fault: judged from the
// facts alone. Of all servers of an installation: installation_diagnostics.h. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sidecar/backend_check/server_check.h"
#include "sidecar/config/config.h"

namespace larder::backend_check {

enum class Weight {
  kUnusable,  // larderd cannot use it
  kWarning,   // it works, and will fail or disappoint
  kNote,
};

struct Diagnostic {
  Weight weight;
  std::string id;    // for programs: "noeviction"
  std::string what;  // half a sentence
  std::string remedy;
  std::vector<std::string> where = {};  // addresses of several servers' own; none: there is one alone, or it is about all of them
};

struct Seen {
  const config::BackendConfig& backend;
  const ServerFacts& facts;
  unsigned processors;                            // of this machine
  remote::Kind kind = remote::Kind::kStandalone;  // what the server is to be
};

// The heaviest first.
std::vector<Diagnostic> findings_of(const Seen& seen);

// What a user of the server needs who may do no more than larderd does.
std::string least_rights(const config::BackendConfig& backend);
// The same of the Sentinels.
std::string least_sentinel_rights(const config::BackendConfig& backend);

}  // namespace larder::backend_check

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
  kUnusable,  // larderd cannot use the server
  kWarning,   // larderd works, and will fail or be slow later
  kNote,
};

struct Diagnostic {
  Weight weight;
  std::string id;    // for programs: "noeviction"
  std::string what;  // half a sentence
  std::string remedy;
  // Addresses of the servers; empty: the only server, or all servers.
  std::vector<std::string> where = {};
};

struct Seen {
  const config::BackendConfig& backend;
  const ServerFacts& facts;
  unsigned processors;                            // of this machine
  remote::Kind kind = remote::Kind::kStandalone;  // the role that the configuration expects
};

// The heaviest first.
std::vector<Diagnostic> findings_of(const Seen& seen);

// The ACL SETUSER command for a user with exactly larderd's rights.
std::string least_rights(const config::BackendConfig& backend);
// The same command for a user at the Sentinels.
std::string least_sentinel_rights(const config::BackendConfig& backend);

}  // namespace larder::backend_check

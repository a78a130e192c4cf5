// What is wrong with a backend for larderd's purpose, and what to do about it: judged from the facts alone. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sidecar/config/config.h"
#include "sidecar/tiers/remote/server_check.h"

namespace larder::ctl {

enum class Weight {
  kUnusable,  // larderd cannot use it
  kWarning,   // it works, and will fail or disappoint
  kNote,
};

struct Finding {
  Weight weight;
  std::string id;    // for programs: "noeviction"
  std::string what;  // half a sentence
  std::string cure;
};

struct Seen {
  const config::BackendConfig& backend;
  const remote::ServerFacts& facts;
  unsigned processors;  // of this machine
};

// The heaviest first.
std::vector<Finding> findings_of(const Seen& seen);

// What a user of the server needs who may do no more than larderd does.
std::string least_rights(const config::BackendConfig& backend);

}  // namespace larder::ctl

// What of a changed configuration a running larderd takes over, and what waits for its next start. Pure; thread-safe.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sidecar/config/config.h"

namespace larder::config {

// The keys whose change a running larderd takes over.
std::span<const std::string_view> live_keys();

struct Reload {
  Config config;                     // the running one with the live keys of the wanted one
  std::vector<std::string> changed;  // live keys that differ
  std::vector<std::string> waiting;  // all others that differ
};
Reload reload(const Config& running, const Config& wanted);

}  // namespace larder::config

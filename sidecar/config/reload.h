// Splits a changed configuration into live settings, for the running larderd, and settings for the
// next start. Pure; thread-safe.
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
  std::vector<std::string> waiting;  // other keys that differ: they need a restart
};
Reload reload(const Config& running, const Config& wanted);

}  // namespace larder::config

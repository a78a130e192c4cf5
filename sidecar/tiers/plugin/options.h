// PluginOptions: all options of the plug-in tier. Errors name a field as in the configuration:
// backend.plugin_socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "sidecar/tiers/tier.h"

namespace larder::config {
struct Config;
}

namespace larder::plugin {

struct PluginOptions {
  std::string socket;  // where larderd listens for the plug-in
  std::uint32_t socket_mode = 0660;
  std::string url;                // the service, as the plug-in reads it
  std::string prefix = "larder";  // of all keys, one for each pool
  std::uint64_t region_bytes = 256ULL << 20;
  std::uint64_t patience_ms = 5000;  // without any answer while a call is open
  std::uint64_t ready_ms = 30'000;   // from HELLO to READY

  std::uint32_t accepted_operations = 1024;
  std::size_t known_chunks = 1 << 18;  // for probe(); beyond, the oldest are forgotten

  // Hears of every chunk that becomes known, by a put, a get or a probe.
  std::shared_ptr<tiers::Residents> residents;

  // The slots of puts and gets in progress. Half of the region, less a page for each record: the
  // other half is for retired pieces.
  std::uint64_t accepted_bytes() const {
    return region_bytes / 2 - std::uint64_t{accepted_operations} * protocol::kSlotAlignBytes;
  }
};

// The options of the configuration; other options keep their defaults.
PluginOptions options_of(const config::Config& config);

}  // namespace larder::plugin

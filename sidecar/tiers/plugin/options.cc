#include "sidecar/tiers/plugin/options.h"

#include "sidecar/config/config.h"

namespace larder::plugin {

PluginOptions options_of(const config::Config& config) {
  PluginOptions options;
  options.socket = config.backend.plugin_socket;
  options.socket_mode = config.socket_mode;
  options.url = config.backend.url;
  options.prefix = config.backend.prefix;
  options.region_bytes = config.backend.plugin_region_bytes;
  options.patience_ms = std::uint64_t{config.backend.plugin_patience_s} * 1000;
  return options;
}

}  // namespace larder::plugin

// PluginTier: chunks in a service that a plug-in, a process of its own, talks to. A thread runs a
// PluginEngine. The contract with the plug-in is docs/design/plugin.md.
#pragma once

#include <memory>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/plugin/options.h"
#include "sidecar/tiers/tier.h"

namespace larder::plugin {

// Errors name the field of a wrong option. A missing plug-in is no error. The clock outlives the
// tier. The destructor closes the tier within a second.
Result<std::unique_ptr<tiers::Tier>> open_plugin_tier(const base::Clock& clock,
                                                      const PluginOptions& options);

}  // namespace larder::plugin

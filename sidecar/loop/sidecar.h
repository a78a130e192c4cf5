// Sidecar: the event loop that owns sessions, index and slots, and the regions that engines map.
//
// start() makes arena, index and socket and returns at once; background threads make the pages of
// the arena present. run() is the loop. stop() may be called from any thread or a signal handler.
// The methods of stats::Control are thread-safe; the thread in run() owns everything else.
#pragma once

#include <memory>

#include "shim/protocol/limits.h"
#include "sidecar/base/clock.h"
#include "sidecar/config/config.h"
#include "sidecar/stats/control.h"

namespace larder::loop {

class Sidecar : public stats::Control {
 public:
  // `clock` outlives the sidecar. The engine is asked about grants older than `grant_age_ms`.
  // Errors name the missing resource and the remedy.
  static Result<std::unique_ptr<Sidecar>> start(const config::Config& config,
                                                const base::Clock& clock,
                                                std::uint64_t grant_age_ms = protocol::kGrantAgeMs);
  // Frees the memory of a stopped sidecar with this configuration. Engines that still map the
  // memory find no chunk any more. kAlreadyExists: the sidecar runs.
  static Status free_memory(const config::Config& config);
  // Returns after stop(), or with the error that ends the loop.
  virtual Status run() = 0;
  virtual void stop() = 0;
  // Applies the settings that may change while larderd runs (config/reload.h): which chunks are
  // written to lower tiers. `why`: the settings that are not in force and the remedy, shown as a
  // fallback; empty if all settings are in force. Thread-safe.
  virtual Status reconfigure(const config::Config& config, const std::string& why,
                             std::uint32_t deadline_ms) = 0;
};

}  // namespace larder::loop

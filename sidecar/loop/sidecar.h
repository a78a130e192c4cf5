// Sidecar: the event loop that owns sessions, index and slots, and the regions that engines map.
//
// start() makes arena, index and socket and returns at once; a background thread touches the arena. run() is the loop; stop() may
// be called from any thread or a signal handler. As stats::Control it is thread-safe; all else belongs to the thread in run().
#pragma once

#include <memory>

#include "shim/protocol/limits.h"
#include "sidecar/base/clock.h"
#include "sidecar/config/config.h"
#include "sidecar/stats/control.h"

namespace larder::loop {

class Sidecar : public stats::Control {
 public:
  // `clock` outlives the sidecar. Grants older than `grant_age_ms` are asked about. Errors name what is missing and how to give it.
  static Result<std::unique_ptr<Sidecar>> start(const config::Config& config, const base::Clock& clock,
                                                std::uint64_t grant_age_ms = protocol::kGrantAgeMs);
  // Frees what a stopped sidecar of this configuration has left; engines that still map it find nothing there any more.
  // kAlreadyExists: it runs.
  static Status free_memory(const config::Config& config);
  // Returns after stop(), or with the reason why the loop cannot go on.
  virtual Status run() = 0;
  virtual void stop() = 0;
  // Takes over what may change while it runs (config/reload.h): what is written to the tiers below. `why`: what of the configuration is
  // not in force and what to do, shown as a fallback; empty: all of it is. Thread-safe.
  virtual Status reconfigure(const config::Config& config, const std::string& why, std::uint32_t deadline_ms) = 0;
};

}  // namespace larder::loop

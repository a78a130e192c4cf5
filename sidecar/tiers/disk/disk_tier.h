// DiskTier: chunks in one file on a local disk, behind the interface of every tier. A thread of its own runs a DiskEngine; commands
// go in and messages come out under one mutex that is never held over I/O.
#pragma once

#include <memory>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/disk/env.h"
#include "sidecar/tiers/disk/options.h"
#include "sidecar/tiers/tier.h"

namespace larder::disk {

// Opens the directory and finds again what is in it; errors name the configuration's field. Env, clock and options.arena outlive
// the tier. Destroying it closes it; where a device still has slots after ten seconds (one, where it was closed before), or has not
// answered at the start, its thread and what it uses are left to the process's end.
Result<std::unique_ptr<tiers::Tier>> open_disk_tier(Env& env, const base::Clock& clock, const DiskOptions& options);

// The same without a thread, for who owns time: nothing happens but in its turns. Owned by one thread.
class SteppedTier : public tiers::Tier {
 public:
  // Waits up to so long for the device; what came of it can be taken then. False: it was closed, and has ended.
  virtual bool turn(std::uint64_t most_ns) = 0;
};
Result<std::unique_ptr<SteppedTier>> open_stepped_disk_tier(Env& env, const base::Clock& clock, const DiskOptions& options);

}  // namespace larder::disk

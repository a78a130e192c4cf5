// DiskTier: chunks in one file on a local disk, behind the interface of every tier. A thread runs a
// DiskEngine. Commands go in and messages come out under one mutex, which is never held during I/O.
#pragma once

#include <memory>

#include "sidecar/base/clock.h"
#include "sidecar/tiers/disk/env.h"
#include "sidecar/tiers/disk/options.h"
#include "sidecar/tiers/tier.h"

namespace larder::disk {

// Opens the directory and recovers its content. Errors name the field of the configuration. Env,
// clock and options.arena outlive the tier. The destructor closes the tier. If the device still
// uses slots after ten seconds (one second after a close()), or did not answer at the start, the
// thread and its memory live until the end of the process.
Result<std::unique_ptr<tiers::Tier>> open_disk_tier(Env& env, const base::Clock& clock,
                                                    const DiskOptions& options);

// The same without a thread, for tests that own the time: all work happens in turn(). Owned by one
// thread.
class SteppedTier : public tiers::Tier {
 public:
  // Runs one turn, and waits up to `most_ns` for the device. Messages can be taken afterwards.
  // False: closed and ended.
  virtual bool turn(std::uint64_t most_ns) = 0;
};
Result<std::unique_ptr<SteppedTier>> open_stepped_disk_tier(Env& env, const base::Clock& clock,
                                                            const DiskOptions& options);

}  // namespace larder::disk

// GrantInquiry: asks one engine about its grants that are too old, and quarantines grants without
// an answer.
//
// The answer, the lock or the silence of the engine decides; a clock alone never does. An engine
// that gave up a store answers with DISOWN; an engine that still writes says so. larderd believes
// both. A grant without an answer in time is quarantined: the key is free for other sessions, and
// the slot stays unused until the engine commits or disowns, or its lock is gone. One inquiry runs
// at a time; the next begins one grant age later. Owned by the thread of the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sidecar/session/grant_ages.h"
#include "sidecar/store/store.h"

namespace larder::session {

class GrantInquiry {
 public:
  // Called at each tick. Returns the packets to send to the engine now.
  std::vector<std::vector<std::byte>> tick(store::SessionNumber session, store::Store& store,
                                           stats::Stats& stats, std::uint64_t now_ms,
                                           const GrantAges& ages);
  void still_writing(std::span<const protocol::SlotRef> slots);
  // Starts the clock of the inquiry again, after a stop of larderd or of the engine.
  void restart(std::uint64_t now_ms) { began_ms_ = now_ms; }

 private:
  void close(store::SessionNumber session, store::Store& store, stats::Stats& stats);

  std::uint64_t began_ms_ = 0;
  bool open_ = false;
  std::vector<protocol::SlotRef> asked_;  // grants without an answer so far
};

}  // namespace larder::session

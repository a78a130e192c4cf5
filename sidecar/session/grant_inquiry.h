// GrantInquiry: asks one engine about those of its grants that are beyond their age, and sets aside what it is silent about.
//
// An engine that gave a store up says so by DISOWN, one that still writes says that; either is believed. What gets no answer in
// time is quarantined: its key is free for others, its slot is handed to nobody until the engine commits or disowns it, or its lock
// is gone. One inquiry runs at a time, and a new one begins when as long has passed since the last as makes a grant too old. Owned
// by the loop's thread.
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
  // At each tick: what is to be sent to the engine now.
  std::vector<std::vector<std::byte>> tick(store::SessionNumber session, store::Store& store, stats::Stats& stats,
                                           std::uint64_t now_ms, const GrantAges& ages);
  void still_writing(std::span<const protocol::SlotRef> slots);
  // The time until now does not count.
  void restart(std::uint64_t now_ms) { began_ms_ = now_ms; }

 private:
  void close(store::SessionNumber session, store::Store& store, stats::Stats& stats);

  std::uint64_t began_ms_ = 0;
  bool open_ = false;
  std::vector<protocol::SlotRef> asked_;  // and not answered yet
};

}  // namespace larder::session

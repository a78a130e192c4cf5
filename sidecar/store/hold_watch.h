// HoldWatch: finds the holds of one session that do not count: holds older than
// protocol::kMaxHoldAgeMs, and holds above the cap of the session.
//
// A pass over the whole table runs once a tick, or once in several ticks if many tables are full. A
// scan for room therefore pays nothing for the check. Holds that are announced between two passes
// count. The table is hostile memory: a hold is copied, bounded and compared. Owned by the thread
// of the store.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/protocol/session_layout.h"
#include "sidecar/stats/stats.h"
#include "sidecar/store/index_writer.h"

namespace larder::store {

class HoldWatch {
 public:
  // Runs one pass. `cap_bytes`: the bytes of slots that the session may hold; a slot that is held
  // twice counts once. `seen`: a bit for each slot, all 0 before and after, grown as needed.
  void look(const protocol::SessionRegion& region, const IndexWriter& index, std::uint64_t now_ms,
            std::uint64_t cap_bytes, std::vector<std::uint64_t>& seen, stats::Stats& stats);
  // larderd was stopped: the age of every hold starts now.
  void restart(std::uint64_t now_ms);

  // Whether this hold, in this place, does not count.
  bool refuses(std::uint32_t place, std::uint64_t hold) const {
    return place < places_.size() && places_[place].word == hold &&
           (places_[place].expired || places_[place].above);
  }
  // As of the last pass: holds announced, and the bytes of those that count.
  std::uint32_t holds() const { return holds_; }
  std::uint64_t bytes() const { return bytes_; }
  // The cost of a pass.
  std::size_t places() const { return places_.size(); }

 private:
  struct Place {
    std::uint64_t word = 0;
    std::uint32_t since_ms = 0;  // the low half of the time
    std::uint32_t expired : 1 = 0;
    std::uint32_t above : 1 = 0;
    std::uint32_t pages : 30 = 0;  // of kSlotAlignBytes; 0: holds no slot
  };

  std::vector<Place> places_;  // as many as the session ever used
  std::uint32_t holds_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace larder::store

// HoldWatch: which holds of one session do not count: those that have stood for too long, and those above what one engine may hold.
//
// A pass over the whole table once a tick (where tables are many and full: once in some) finds them, so that a scan in search of
// room pays nothing for a hold that is in nobody's way. What is announced between two passes counts. The table is hostile memory: what
// stands there is copied, bounded and compared. Owned by the store's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "shim/protocol/session_layout.h"
#include "sidecar/stats/stats.h"
#include "sidecar/store/index_writer.h"

namespace larder::store {

class HoldWatch {
 public:
  // One pass. `cap_bytes`: of slots that the session may hold; a slot held twice is one. `seen` has a bit for each slot, all 0
  // before and after, and is grown as needed.
  void look(const protocol::SessionRegion& region, const IndexWriter& index, std::uint64_t now_ms, std::uint64_t cap_bytes,
            std::vector<std::uint64_t>& seen, stats::Stats& stats);
  // Nobody was watching: every hold is as young as if it had been announced now.
  void restart(std::uint64_t now_ms);

  // Whether this hold, in this place, does not count.
  bool refuses(std::uint32_t place, std::uint64_t hold) const {
    return place < places_.size() && places_[place].word == hold && (places_[place].expired || places_[place].above);
  }
  // As of the last pass: holds announced, and the bytes of those that count.
  std::uint32_t holds() const { return holds_; }
  std::uint64_t bytes() const { return bytes_; }
  // What a pass costs.
  std::size_t places() const { return places_.size(); }

 private:
  struct Place {
    std::uint64_t word = 0;
    std::uint32_t since_ms = 0;  // the low half of the time
    std::uint32_t expired : 1 = 0;
    std::uint32_t above : 1 = 0;
    std::uint32_t pages : 30 = 0;  // of kSlotAlignBytes; 0: it holds nothing
  };

  std::vector<Place> places_;  // as many as the session ever used
  std::uint32_t holds_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace larder::store

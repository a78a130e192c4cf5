// HoldScan: finds the slots of a batch that an engine holds. One pass over all announced holds
// serves the whole batch.
//
// Session regions are hostile memory: a hold is copied, bounded and compared. Owned by the thread
// of the store.
// REQUIRES: the words of the batch left the committed state before run(), by a sequentially
// consistent exchange.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shim/protocol/session_layout.h"
#include "sidecar/store/hold_watch.h"
#include "sidecar/store/index_writer.h"

namespace larder::store {

class HoldScan {
 public:
  void clear();
  void add(std::uint32_t slot);
  // Reads every hold of the region. Marks slots of the batch that a counting hold names at their
  // current generation.
  void run(const protocol::SessionRegion& region, const IndexWriter& index, const HoldWatch& watch);
  // Marks a slot that is held in another way. REQUIRES: the slot is in the batch.
  void mark_held(std::uint32_t slot) { held_[slot / 64] |= 1ULL << (slot % 64); }
  bool held(std::uint32_t slot) const { return bit(held_, slot); }
  // Whether the slot is in the batch.
  bool asked(std::uint32_t slot) const { return bit(asked_, slot); }

 private:
  static bool bit(const std::vector<std::uint64_t>& bits, std::uint32_t slot) {
    return slot / 64 < bits.size() && (bits[slot / 64] >> (slot % 64) & 1) != 0;
  }

  std::vector<std::uint64_t> asked_;  // a bit a slot, grown as needed
  std::vector<std::uint64_t> held_;
  std::vector<std::uint32_t> batch_;
};

}  // namespace larder::store

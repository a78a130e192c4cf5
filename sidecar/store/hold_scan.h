// HoldScan: which of a batch of slots some engine says it is reading. One pass over all announced holds answers for the whole
// batch.
//
// Session regions are hostile memory: what stands there is copied, bounded and compared, nothing else. Owned by the store's
// thread. REQUIRES of callers: the words of the batch were made not committed before run(), by sequentially consistent exchange.
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
  // Reads every hold of the region. Marks the slots of the batch that are held at their present generation by a hold that counts.
  void run(const protocol::SessionRegion& region, const IndexWriter& index, const HoldWatch& watch);
  // Held otherwise. REQUIRES: the slot is of the batch.
  void mark_held(std::uint32_t slot) { held_[slot / 64] |= 1ULL << (slot % 64); }
  bool held(std::uint32_t slot) const { return bit(held_, slot); }

 private:
  static bool bit(const std::vector<std::uint64_t>& bits, std::uint32_t slot) {
    return slot / 64 < bits.size() && (bits[slot / 64] >> (slot % 64) & 1) != 0;
  }

  std::vector<std::uint64_t> asked_;  // a bit a slot, grown as needed
  std::vector<std::uint64_t> held_;
  std::vector<std::uint32_t> batch_;
};

}  // namespace larder::store

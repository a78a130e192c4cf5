// Readers: which slots an engine or larderd itself is reading.
//
// Engines announce holds in their session regions; larderd keeps slots (a tier writes the chunk, or
// a promoted chunk waits for its engine). Owned by the thread of the store.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "sidecar/store/chunk_table.h"
#include "sidecar/store/hold_scan.h"
#include "sidecar/store/session_book.h"

namespace larder::store {

class Readers {
 public:
  // Both outlive this object.
  Readers(ChunkTable& chunks, SessionBook& sessions);
  Readers(const Readers&) = delete;

  // A kept slot is neither evicted nor freed, and its bytes do not change, until let_go() was
  // called as often as keep(). Look-ups still find the chunk unless it is dropped or bad. False:
  // not committed at this generation.
  bool keep(std::uint32_t slot, std::uint64_t generation);
  void let_go(std::uint32_t slot, std::uint64_t generation);

  // Looks for readers of these slots, once for the whole batch. REQUIRES: none of the slots is
  // committed.
  void scan(std::span<const std::uint32_t> slots);
  // Whether the last scan() found a reader of the slot.
  bool held(std::uint32_t slot) const { return holds_.held(slot); }
  // Counts a slot as held until the next scan(). False: the slot was not in the batch of the last
  // scan(), or was held.
  bool count_held(std::uint32_t slot) {
    if (!holds_.asked(slot) || holds_.held(slot)) return false;
    holds_.mark_held(slot);
    return true;
  }

  std::uint64_t kept_bytes() const { return kept_bytes_; }

 private:
  struct Kept {
    std::uint64_t generation = 0, bytes = 0;
    std::uint32_t times = 0;
  };

  ChunkTable& chunks_;
  IndexWriter& index_;  // these two are of chunks_
  SlotTable& table_;
  SessionBook& sessions_;
  std::unordered_map<std::uint32_t, Kept> kept_;  // by slot
  std::uint64_t kept_bytes_ = 0;
  HoldScan holds_;
};

}  // namespace larder::store

// Evictor: evicts families to make room.
//
// The handshake with engines: the words of the slots leave the committed state, and then all holds
// are scanned. An engine announces a hold first and then checks the word, so one side always sees the
// other. Owned by the thread of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sidecar/stats/stats.h"
#include "sidecar/store/chunk_table.h"
#include "sidecar/store/family.h"
#include "sidecar/store/readers.h"
#include "sidecar/store/tier_listeners.h"
#include "sidecar/store/use_ages.h"

namespace larder::store {

class Evictor {
 public:
  // All of it outlives this object.
  Evictor(ChunkTable& chunks, TierListeners& listeners, Readers& readers, stats::Stats& stats);
  Evictor(const Evictor&) = delete;

  // Evicts the families of these slots, in order, until `enough` slots are free or `may_examine` is
  // used up, and one family more at most. One scan of all holds serves the whole batch. A family with
  // a held or unfinished chunk stays, and counts as used. Returns the number of free slots.
  std::uint32_t evict_families(std::span<const std::uint32_t> slots, std::size_t enough, std::uint32_t& may_examine,
                               std::uint64_t& counter);
  // Passes in the time once a tick, for the age of evicted chunks.
  void note_time(std::uint64_t now_ms) { ages_.tick(now_ms, arena_.uses()); }

 private:
  void claim_family(std::uint32_t slot);
  bool release_family(std::span<const std::uint32_t> slots);

  ChunkTable& chunks_;
  IndexWriter& index_;  // these three are of chunks_
  SlotTable& table_;
  SlotArena& arena_;
  TierListeners& listeners_;
  Readers& readers_;
  stats::Stats& stats_;
  UseAges ages_;
  // Reused, so that eviction allocates no memory.
  std::vector<std::uint32_t> batch_;       // of evict_families(): no longer committed
  std::vector<std::uint32_t> family_end_;  // in batch_
  Family family_;
};

}  // namespace larder::store

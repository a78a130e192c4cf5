// TierListeners: tells each lower tier what becomes of chunks,
// and knows which tier has which chunk.
//
// Free of cost without a lower tier. A listener is called from inside calls of the store and may
// only read from the store. It hears of drops and evictions before the change, of the rest
// afterwards. Owned by the thread of the store.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sidecar/stats/stats.h"
#include "sidecar/store/chunk_listener.h"
#include "sidecar/store/chunk_table.h"
#include "sidecar/store/drop.h"

namespace larder::store {

class TierListeners {
 public:
  // Both outlive this object.
  TierListeners(ChunkTable& chunks, stats::Stats& stats);
  TierListeners(const TierListeners&) = delete;

  // `listener` outlives this object, or is reset with nullptr. From here on the store counts chunks
  // that are evicted before they were written.
  void set(TierNumber tier, ChunkListener* listener) { listeners_[tier] = listener; }

  // ---- Messages: see ChunkListener ----
  void committed(std::uint32_t slot) {
    for (ChunkListener* listener : listeners_)
      if (listener != nullptr) listener->committed(index_.view(slot));
  }
  void used(std::uint32_t slot) {
    for (ChunkListener* listener : listeners_)
      if (listener != nullptr) listener->used(index_.view(slot));
  }
  void came_up(std::uint32_t slot, std::uint32_t since_s) {
    for (ChunkListener* listener : listeners_)
      if (listener != nullptr) listener->came_up(index_.view(slot), since_s);
  }
  void damaged(const protocol::EntryView& chunk) {
    for (ChunkListener* listener : listeners_)
      if (listener != nullptr) listener->damaged(chunk);
  }
  // Tells all tiers of a drop, which keeps their answers.
  void announce(Drop& drop);
  // Whether each tier accepts one more drop of an engine. Drops of admin verbs and of larderd
  // ignore this bound.
  bool takes_drops() const;
  // Evicts the chunks of a block hash in all tiers. REQUIRES: the handle is open.
  LowerTierEviction evict_from_lower_tiers(std::uint32_t handle, const protocol::BlockHash& hash);

  // ---- The marks of written chunks ----
  bool written_to(TierNumber tier, std::uint32_t slot) const {
    return (table_.note(slot).written >> tier & 1) != 0;
  }
  // Marks whether the tier has the chunk. No effect if the chunk is not committed at this
  // generation.
  void mark_written(TierNumber tier, std::uint32_t slot, std::uint64_t generation,
                    bool written = true);
  // Counts a chunk that is evicted for room as lost, if a tier should have it and does not, or if
  // no tier has it.
  void count_lost(std::uint32_t slot);
  // Appends the committed ones of `most` slots from number `from` on. Leaves out chunks that the
  // tier has, unless `also_written`. Returns the next number, or kNoSlot at the end.
  std::uint32_t walk(TierNumber tier, std::uint32_t from, std::uint32_t most,
                     std::vector<protocol::SlotRef>& slots, bool also_written) const;

 private:
  ChunkTable& chunks_;
  IndexWriter& index_;  // these three are of chunks_
  SlotTable& table_;
  NamespaceTable& namespaces_;
  stats::Stats& stats_;
  std::array<ChunkListener*, kMaxTiers> listeners_{};  // by tier; null without the tier
};

}  // namespace larder::store

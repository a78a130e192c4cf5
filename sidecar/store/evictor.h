// Evictor: finds a slot for a new chunk: a free place, a drained window, or the coldest families.
//
// The handshake with engines: the words of the slots leave the committed state, and then all holds
// are scanned. An engine announces a hold first and then checks the word, so one side always sees
// the other. Owned by the thread of the store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sidecar/stats/stats.h"
#include "sidecar/store/chunk_table.h"
#include "sidecar/store/family.h"
#include "sidecar/store/readers.h"
#include "sidecar/store/recovery_grace.h"
#include "sidecar/store/tier_listeners.h"
#include "sidecar/store/use_ages.h"

namespace larder::store {

class Evictor {
 public:
  // All arguments outlive this object.
  Evictor(ChunkTable& chunks, TierListeners& listeners, Readers& readers,
          const RecoveryGrace& grace, stats::Stats& stats);
  Evictor(const Evictor&) = delete;

  // A slot of the size; evicts for it. The number is kNoSlot without room, or once `may_examine` is
  // used up. Own chunks of the size are evicted only with a stamp older than `colder_than`: a chunk
  // takes no room from its ancestors.
  SlotArena::Slot take_slot(std::uint32_t size_class, std::uint32_t& may_examine,
                            std::uint64_t colder_than = PromptOrder::kAnyStamp);
  // Whether the last take_slot() left out chunks that are not colder.
  bool kept_warmer() const { return kept_warmer_; }
  // Goes on with the window that is being drained. Returns the number of free slots.
  std::uint32_t go_on_draining(std::uint32_t& may_examine);
  // Appends the coldest slots, coldest first, of every size that will evict soon: the tier should
  // have these chunks. Leaves out chunks that the tier has, unless `also_written`: a tier may have
  // lost chunks.
  void next_to_go(TierNumber tier, std::vector<protocol::SlotRef>& slots, bool also_written);
  // Passes in the time once a tick, for the age of evicted chunks and the end of keeps. A tick ends
  // kMostKeepsEnded families.
  void note_time(std::uint64_t now_ms);
  static constexpr std::uint32_t kMostKeepsEnded = 1024;

 private:
  bool make_room(std::uint32_t size_class, std::uint32_t& may_examine, std::uint64_t colder_than);
  bool evict_of(std::uint32_t size_class, std::uint32_t& may_examine, std::uint64_t colder_than);
  bool give_up_keeps(std::uint32_t size_class, std::uint32_t& may_examine);
  void find_family_of(std::uint32_t slot);
  void keep_warmer(std::uint64_t colder_than);
  std::optional<std::uint32_t> coldest_candidate() const;
  bool start_drain(std::uint32_t size_class);
  bool any_held(const SlotArena::Window& window);
  std::uint32_t evict_families(std::span<const std::uint32_t> slots, std::size_t enough,
                               std::uint32_t& may_examine, std::uint64_t& counter);
  void claim_family(std::uint32_t slot);
  void keep_ancestors(std::uint32_t slot);
  bool release_family(std::span<const std::uint32_t> slots);

  ChunkTable& chunks_;
  IndexWriter& index_;  // these four are of chunks_
  SlotTable& table_;
  SlotArena& arena_;
  EvictionPolicy& policy_;
  TierListeners& listeners_;
  Readers& readers_;
  const RecoveryGrace& grace_;
  stats::Stats& stats_;
  UseAges ages_;
  // Reused, so that eviction allocates no memory.
  std::vector<std::uint32_t> batch_;       // of evict_families(): no longer committed
  std::vector<std::uint32_t> family_end_;  // in batch_
  std::vector<std::uint32_t> victims_;     // candidates
  std::vector<std::uint32_t> stayed_;      // of families that claim_family() left in place
  Family family_;
  bool kept_warmer_ = false;
};

}  // namespace larder::store

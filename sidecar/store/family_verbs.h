// FamilyVerbs: prefetch, pin, unpin, evict, demote and keep by block hash.
//
// Each call does one slice, of one hash at least, and returns the counts of the first all()
// hashes of the list. Found: done on a complete family (evict: on any chunk). Absent: the family
// is missing or incomplete. All hashes are absent for a handle that is not open. Owned by the
// thread of the store.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shim/protocol/messages.h"
#include "sidecar/stats/stats.h"
#include "sidecar/store/chunk_table.h"
#include "sidecar/store/family.h"
#include "sidecar/store/recovery_grace.h"
#include "sidecar/store/removals.h"
#include "sidecar/store/session_book.h"
#include "sidecar/store/tier_listeners.h"

namespace larder::store {

class FamilyVerbs {
 public:
  // All arguments outlive this object.
  FamilyVerbs(ChunkTable& chunks, RecoveryGrace& grace, TierListeners& listeners,
              SessionBook& sessions, Removals& removals, stats::Stats& stats);
  FamilyVerbs(const FamilyVerbs&) = delete;

  // Counts the families as used.
  protocol::ActCounts prefetch(std::uint32_t handle, std::span<const protocol::BlockHash> hashes);
  // Protects complete families from eviction, up to half of the arena (protocol::kPinnedShare). A
  // second pin of a family changes nothing. A pin belongs to no session, and ends by unpin, evict,
  // drop, clear, or a bad chunk of the family.
  protocol::ActCounts pin(std::uint32_t handle, std::span<const protocol::BlockHash> hashes);
  protocol::ActCounts unpin(std::uint32_t handle, std::span<const protocol::BlockHash> hashes);
  // Dooms the chunks, pinned or not, here and in lower tiers; grants in progress will not be
  // committed. Refused: gone here, but a lower tier is busy or degraded and keeps its chunk.
  protocol::ActCounts evict(std::uint32_t handle, std::span<const protocol::BlockHash> hashes);
  // Makes the families the next to leave memory, and ends their keeps. Their next use makes them
  // ordinary chunks again.
  // REQUIRES: the hashes of a prompt stand in its order, see PromptOrder::demote().
  protocol::ActCounts demote(std::uint32_t handle, std::span<const protocol::BlockHash> hashes);
  // Protects complete families from eviction for keep_s seconds, or until the store finds no other
  // room; up to the share of Keeps. Prolongs a keep; no effect on pinned families. Refused: over
  // the share.
  protocol::ActCounts keep(std::uint32_t handle, std::span<const protocol::BlockHash> hashes,
                           std::uint32_t keep_s);
  // Lists the chunks of a family in `members`; empty for a handle that is not open.
  void look_at(std::uint32_t handle, const protocol::BlockHash& hash,
               std::vector<Member>& members) {
    look_at_family(chunks_, handle, hash, members);
  }

 private:
  template <typename Verb>
  protocol::ActCounts each_family(std::uint32_t handle, std::span<const protocol::BlockHash> hashes,
                                  const Verb& verb);

  ChunkTable& chunks_;
  IndexWriter& index_;  // these four are of chunks_
  SlotTable& table_;
  SlotArena& arena_;
  NamespaceTable& namespaces_;
  RecoveryGrace& grace_;
  TierListeners& listeners_;
  SessionBook& sessions_;
  Removals& removals_;
  stats::Stats& stats_;
  Family family_;  // of each_family()
};

}  // namespace larder::store

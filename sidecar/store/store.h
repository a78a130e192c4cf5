// Store: the chunks in the arena, the right to write into slots, and eviction.
//
// Pure: no socket, file or clock; the loop calls the store and passes in the memory. Owned by the
// thread of the loop. The loop chooses session numbers, and uses a number once in one run. Requests
// of sessions are hostile: the store compares slots and generations, and a wrong request costs its
// own session.
//
// Every slot is in exactly one place:
//   free         in SlotTable
//   granted      in the list of its session
//   quarantined  in the list of its session; without a key, so that the slot blocks no key
//   committed    in EvictionPolicy, in the list of pinned slots, or in Keeps
//   doomed       dying, without a key, perhaps still being read; sweep() frees unheld slots
//
// The number of a slot is its index entry, and says nothing about its place in the arena.
//
// The chunks of one block hash, in all shards and groups, are a family. A family leaves as a whole
// to make room, and is pinned as a whole. A family with a held, pinned or unfinished chunk stays,
// and counts as used. A bad chunk leaves alone: the next store of the chunk completes its family
// again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shim/protocol/messages.h"
#include "sidecar/stats/stats.h"
#include "sidecar/store/chunk_table.h"
#include "sidecar/store/drop.h"
#include "sidecar/store/evictor.h"
#include "sidecar/store/family_verbs.h"
#include "sidecar/store/granter.h"
#include "sidecar/store/index_writer.h"
#include "sidecar/store/namespace_table.h"
#include "sidecar/store/previous_index.h"
#include "sidecar/store/readers.h"
#include "sidecar/store/recovery_grace.h"
#include "sidecar/store/removals.h"
#include "sidecar/store/restorer.h"
#include "sidecar/store/session_book.h"
#include "sidecar/store/slot_arena.h"
#include "sidecar/store/store_limits.h"
#include "sidecar/store/tier_listeners.h"

namespace larder::store {

class Store {
 public:
  // `index` and `arena` (of shape.arena_bytes) are mapped and outlive the store. So does `stats`,
  // whose counters the store raises.
  Store(const IndexShape& shape, std::byte* index, const std::byte* arena, stats::Stats& stats);
  Store(const Store&) = delete;

  void set_touched_bytes(std::uint64_t bytes) { chunks_.set_touched_bytes(bytes); }
  // The most memory of kept chunks, in percent of the arena. 0 until the first call.
  void set_keep_percent(std::uint32_t percent) {
    chunks_.keeps().set_most_bytes(arena_.arena_bytes() * percent / 100);
  }

  // ---- The parts with calls of their own; see their headers ----
  SessionBook& sessions() { return sessions_; }
  const SessionBook& sessions() const { return sessions_; }
  Readers& readers() { return readers_; }
  TierListeners& tiers() { return listeners_; }
  FamilyVerbs& families() { return families_; }

  // ---- A warm restart (restorer.h) ----
  using Restored = store::Restored;
  // Takes over the content of an earlier larderd, and drops inconsistent entries. A slot keeps its
  // number, place and generation, so that holds and grants of engines name the same slot before and
  // after the restart. `names`: its namespaces; `alive`: its sessions with a living process, which
  // count as ended here and may be succeeded.
  //
  // Until end_recovery_grace() the store hands on no slot that held a chunk, and engines go on in
  // the earlier index, which outlives this call. A slot that the earlier larderd was reading into
  // is free if the read was from the tier of this store: a larderd can open that tier only after
  // all earlier requests have ended. Else the end of the read is unknown, and the slot is set aside
  // as long as the arena exists. REQUIRES: no call before except set_touched_bytes().
  Restored restore(const PreviousIndex& earlier, std::span<const EarlierName> names,
                   std::span<const SessionNumber> alive);
  // Each session of `alive` has announced holds and grants again, has ended, or has run out of
  // time. Supersedes the earlier index first, and hands on slots from here on.
  void end_recovery_grace();
  bool in_recovery_grace() const { return grace_.active(); }

  // ---- Namespaces ----
  // See NamespaceTable::open().
  Result<std::uint32_t> open_namespace(const NamespaceSpec& spec, std::string* difference) {
    return chunks_.open_namespace(spec, difference);
  }
  const NamespaceTable& namespaces() const { return namespaces_; }
  // A session opens or leaves a namespace. A namespace is open while a session has it open or the
  // key of a slot names it (quarantined and doomed slots name no namespace). Without both the
  // namespace closes: its place serves another namespace under another generation, and the old
  // handle never becomes valid again in this index.
  // REQUIRES: the namespace is open.
  void join_namespace(std::uint32_t handle) { namespaces_.join(handle); }
  void leave_namespace(std::uint32_t handle) { chunks_.leave_namespace(handle); }
  // See Removals.
  void drop(Drop& drop) { removals_.drop(drop); }

  // ---- Time and numbers ----
  // Passes in the time once a tick, for the age of evicted chunks and the end of keeps.
  void note_time(std::uint64_t now_ms) { evictor_.note_time(now_ms); }
  std::uint64_t last_generation() const { return index_.last_generation(); }

  // ---- Chunks ----
  // Fills one Grant for each hash. `parents`: for each hash the hash of the chunk before it in its
  // prompt (zero: none), or empty if unknown. A chunk leaves before its parent. A chunk that would
  // evict its own ancestors gets no space, so a prompt longer than the memory keeps its head.
  // REQUIRES: as many grants as hashes; an open namespace with a known layout of shard and group.
  void reserve(SessionNumber session, const protocol::Key& scope,
               std::span<const protocol::BlockHash> hashes, std::span<protocol::Grant> grants,
               std::span<const protocol::BlockHash> parents = {}) {
    granter_.reserve(session, scope, hashes, grants, parents);
  }
  // Refuses and counts a commit without this grant at this generation. A commit of a quarantined
  // grant frees the slot.
  void commit(SessionNumber session, const protocol::CommitRecord& record);
  void disown(SessionNumber session, const protocol::SlotRef& slot);
  // See Removals.
  void report_bad(const protocol::SlotRef& slot) { removals_.report_bad(slot); }
  // Begins a batch of uses, such as a message or the new events: see PromptOrder::begin_uses().
  void begin_uses() { chunks_.order().begin_uses(); }
  // An engine used the chunk.
  void touch(std::uint32_t slot, std::uint64_t generation);

  // ---- Promotions: chunks that larderd itself writes (store_own.cc) ----
  // Grants larderd a slot for a promotion, and evicts for it as reserve() does. Engines get
  // "pending" for the key until promoted() or promotion_failed(). Present: with slot and
  // generation. Pending: a session writes the chunk. Refused: the sizes do not match the layout of
  // the namespace, or the handle is not open.
  protocol::Grant promote(const protocol::Key& key, std::uint64_t payload_bytes,
                          std::uint64_t piece_bytes) {
    return granter_.promote(key, payload_bytes, piece_bytes);
  }
  // The bytes of a promotion have arrived from `from`. `since_s`: the start of the time to live, 0
  // if the tier does not know. `guest`: another larderd owns the chunk, so this copy is evicted
  // before all own chunks until it was used kGuestUses times. False: the chunk was dropped in the
  // meantime.
  bool promoted(const protocol::SlotRef& slot, std::uint64_t root, TierNumber from,
                std::uint32_t since_s, bool guest = false);
  static constexpr std::uint32_t kGuestUses = 2;
  // The promotion failed, and the tier has released the slot.
  void promotion_failed(const protocol::SlotRef& slot);

  // ---- For lower tiers and peers ----
  // The committed chunk of the key; empty without one.
  std::optional<protocol::EntryView> find(const protocol::Key& key) {
    chunks_.spend(1);
    const std::uint32_t slot = index_.find(key);
    return slot == kNoSlot ? std::nullopt : chunks_.committed_chunk(slot, index_.generation(slot));
  }
  // The chunk in a slot; empty if it is not committed at this generation.
  std::optional<protocol::EntryView> committed_chunk(std::uint32_t slot,
                                                     std::uint64_t generation) const {
    return chunks_.committed_chunk(slot, generation);
  }
  std::span<const std::byte> slot_memory(const protocol::EntryView& chunk) const {
    return chunks_.slot_memory(chunk);
  }
  // See Evictor.
  void next_to_go(TierNumber tier, std::vector<protocol::SlotRef>& slots, bool also_written) {
    evictor_.next_to_go(tier, slots, also_written);
  }

  // ---- Work for idle moments ----
  // The number of look-ups and of slots looked at, in total. A slice ends with the family that
  // reaches kSliceEffort, and the search for room of a reserve() or sweep() with the family that
  // reaches kReserveEffort. A family of 4,096 with one chunk left costs as many look-ups as a full
  // family.
  std::uint64_t effort() const { return chunks_.effort(); }
  static constexpr std::uint32_t kSliceEffort = store::kSliceEffort;
  static constexpr std::uint32_t kReserveEffort = store::kReserveEffort;
  // Counts work for the store that the store does not see, such as the events of an engine.
  void spend(std::uint64_t work) { chunks_.spend(work); }
  // See Removals.
  bool verify_next() { return removals_.verify_next(); }
  // Frees doomed slots without a hold, and continues to drain a window.
  void sweep();

  // Writes the gauges and the namespaces into `stats`.
  void fill(stats::Stats& stats) const;
  void mark_index_dead() { index_.mark_dead(); }

 private:
  using Session = SessionBook::Session;
  void enter_committed(Session& session, std::uint32_t slot, std::uint64_t root,
                       std::uint32_t guest = 0);

  ChunkTable chunks_;
  IndexWriter& index_;  // these four are of chunks_
  SlotTable& table_;
  SlotArena& arena_;
  NamespaceTable& namespaces_;
  stats::Stats& stats_;
  TierListeners listeners_;
  SessionBook sessions_;
  Readers readers_;
  RecoveryGrace grace_;
  Evictor evictor_;
  Granter granter_;
  Removals removals_;
  FamilyVerbs families_;
};

}  // namespace larder::store

// Store: what is in the arena, who may write where, and what goes when room is needed.
//
// Pure: no socket, file or clock; the loop calls it and gives it the memory. Owned by the loop's thread. Sessions are numbers
// that the loop chose and never uses twice in one life; what they ask is hostile and can only cost themselves.
//
// Every slot is in exactly one place:
//   free (SlotTable) · granted (its session's list) · quarantined (its session's list; no key) · committed (EvictionPolicy, or the
//   list of pinned ones) · doomed (dying, no key, maybe still being read; freed by sweep() once no engine holds it)
//
// Chunks of one block hash are a family: all shards and groups of it. They leave together for room, and are pinned together.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "shim/protocol/messages.h"
#include "shim/protocol/session_layout.h"
#include "sidecar/stats/stats.h"
#include "sidecar/store/chunk_listener.h"
#include "sidecar/store/eviction_policy.h"
#include "sidecar/store/hold_scan.h"
#include "sidecar/store/hold_watch.h"
#include "sidecar/store/index_writer.h"
#include "sidecar/store/namespace_table.h"
#include "sidecar/store/previous_index.h"
#include "sidecar/store/slot_arena.h"
#include "sidecar/store/slot_table.h"
#include "sidecar/store/use_ages.h"

namespace larder::store {

using SessionNumber = std::uint32_t;
inline constexpr SessionNumber kNoSession = 0xffffffff;
inline constexpr SessionNumber kOwnSession = 0xfffffffe;  // larderd itself, which writes what it brings up

// What one session may take at most, in bytes of slots. One chunk may always be granted.
struct SessionCaps {
  std::uint64_t granted_bytes = UINT64_MAX;
  std::uint64_t held_bytes = UINT64_MAX;
};

// What is known of a namespace of an earlier life.
struct EarlierName {
  NamespaceSpec spec;
  std::optional<std::uint32_t> handle = {};  // under which that life's index has it; none: it did not say
};

// How far dropping has come.
struct Drop {
  std::optional<std::uint32_t> handle = {};  // none: every namespace
  // The tiers below keep what they have. It ends where a session opens the namespace, or nothing of it is left. REQUIRES: a handle.
  bool memory_only = false;
  std::uint64_t dropped = 0;  // chunks
  std::uint32_t next = 0;     // slot to look at
  bool done = false;
  std::vector<std::shared_ptr<void>> announced = {};  // to the listeners, at the first slice
};

class Store {
 public:
  // `index` and `arena` (shape.arena_bytes of it) are mapped and outlive the store, as does `stats`, whose counters it raises.
  Store(const IndexShape& shape, std::byte* index, const std::byte* arena, stats::Stats& stats);

  void set_touched_bytes(std::uint64_t bytes) {
    if (bytes == touched_bytes_) return;  // readers have that line of the header in their caches
    touched_bytes_ = bytes;
    arena_.set_touched_bytes(bytes);
    index_.set_touched_bytes(bytes);
  }

  // ---- A warm restart (store_restore.cc) ----
  struct Restored {
    std::uint64_t kept = 0, dropped = 0, quarantined = 0;  // chunks that were committed; slots
    std::uint64_t own = 0;                                 // of these, slots that a tier may still read into
    // That were opened, by their place in the list, with their handles here.
    std::vector<std::pair<std::size_t, std::uint32_t>> names;
  };
  // Takes over what an earlier life left, under the same slot numbers and generations. `names`: what is known of its namespaces;
  // `alive`: its sessions whose process lives, which are ended here and may be succeeded. What is odd is dropped. From here on no slot
  // that had a chunk is handed on, until settled(); engines go on in the earlier index, which outlives that. What larderd itself had
  // been reading into is free where that was out of this store's own tier: to open it means that no request of an earlier life is
  // left. Else nobody can tell, and it stays set aside for as long as there is this arena. REQUIRES: nothing was done yet but
  // set_touched_bytes().
  Restored restore(const PreviousIndex& earlier, std::span<const EarlierName> names, std::span<const SessionNumber> alive);
  // Each of those sessions goes on and has announced its holds and grants again, or is over, or its time is up.
  void settled();
  bool settling() const { return settling_; }

  // ---- Namespaces ----
  // See NamespaceTable::open().
  Result<std::uint32_t> open_namespace(const NamespaceSpec& spec, std::string* difference);
  const NamespaceTable& namespaces() const { return namespaces_; }
  // A session opens it, or leaves it. What the last one has left is given back as soon as it has no chunk, and its handle is none then; it
  // goes on as it was where one opens it again before. REQUIRES: it is open.
  void join_namespace(std::uint32_t handle) { namespaces_.join(handle); }
  void leave_namespace(std::uint32_t handle);
  // Whether each tier takes one drop more; people and larderd itself drop all the same.
  bool takes_drops() const;
  // Dooms every chunk; what is being written will not be committed. The handle of a namespace that a session has open stays good. One slice
  // a call: what was there at the first one is gone when it is done.
  void drop(Drop& drop);

  // ---- Sessions ----
  // `region` stays mapped until end_session().
  void add_session(SessionNumber session, const protocol::SessionRegion& region, const SessionCaps& caps = {});
  // A silent session's holds do not count and its grants are quarantined; it may still commit or disown those, which frees them.
  void set_silent(SessionNumber session, bool silent);
  // Its holds go at once, its grants are quarantined until release_quarantine(). Returns whether there are any.
  bool end_session(SessionNumber session);
  // Its writer has surely stopped. The session is forgotten. REQUIRES: end_session().
  void release_quarantine(SessionNumber session);
  // The engine of the session `earlier` goes on as `session`. What it does not list as still being written comes back now, unless
  // the list is not `complete`; what is left is for `session` to commit or disown. Returns the slots that came back. REQUIRES:
  // `earlier` has ended.
  std::uint32_t succeed(SessionNumber session, SessionNumber earlier, std::span<const protocol::SlotRef> still_written,
                        bool complete);
  // Appends the grants of the session up to that generation, and all that are quarantined.
  void overdue(SessionNumber session, std::uint64_t generation, std::vector<protocol::SlotRef>& slots) const;
  // Sets a grant aside, as if the session were silent. False: it is no grant of it any more.
  bool quarantine_grant(SessionNumber session, const protocol::SlotRef& slot);
  // Looks which holds are too old or too many (see HoldWatch), once a tick. Where the tables are many and full it takes some ticks
  // to look at all: so many places in one, or one session's more. `restart`: nobody was watching for a while.
  static constexpr std::size_t kPlacesATick = 8ULL * protocol::kMaxHolds;
  void watch_holds(std::uint64_t now_ms, bool restart);
  struct SessionUse {
    std::uint32_t grants, holds;  // grants: granted and quarantined slots
    std::uint64_t granted_bytes, held_bytes;
  };
  // Holds as of the last time that watch_holds() looked at them.
  SessionUse use_of(SessionNumber session) const;
  // What time it is, once a tick: tells how old is what is evicted.
  void note_time(std::uint64_t now_ms) { ages_.tick(now_ms, arena_.uses()); }
  std::uint64_t last_generation() const { return index_.last_generation(); }

  // ---- Chunks ----
  // Fills one Grant for each hash. REQUIRES: as many grants as hashes; the namespace open, and the layout of shard and group known.
  void reserve(SessionNumber session, const protocol::Key& scope, std::span<const protocol::BlockHash> hashes,
               std::span<protocol::Grant> grants);
  // Refused, and counted, unless this session holds the grant at this generation. A quarantined grant of its own is freed by it.
  void commit(SessionNumber session, const protocol::CommitRecord& record);
  void disown(SessionNumber session, const protocol::SlotRef& slot);
  // An engine found bytes that do not match: the chunk is doomed, and verify_next() looks who was right.
  void report_bad(const protocol::SlotRef& slot);
  // An engine used it.
  void touch(std::uint32_t slot, std::uint64_t generation);

  // ---- Held by larderd itself (store_own.cc) ----
  // Until it is let go as often, a kept slot is neither evicted nor freed, and its bytes do not change; look-ups go on finding it
  // unless it is dropped or bad. False: it is not committed at this generation.
  bool keep(std::uint32_t slot, std::uint64_t generation);
  void let_go(std::uint32_t slot, std::uint64_t generation);
  // What is to be written into a slot that this session was granted at this generation, or nothing: it has no such grant, or it is quarantined.
  std::optional<protocol::EntryView> granted_chunk(SessionNumber session, const protocol::SlotRef& slot);
  // A slot for a chunk that comes up from a tier, evicting for it as reserve() does: granted to nobody's session, and pending to who would
  // store it, until promoted() or promotion_failed(). Present: with its slot and generation. Pending: somebody writes it. Refused: the
  // sizes are not those of the namespace's layout, or the handle is none.
  protocol::Grant promote(const protocol::Key& key, std::uint64_t payload_bytes, std::uint64_t piece_bytes);
  // Its bytes are there, out of this tier, which told since when its time to live counts (0: it did not). False: it was dropped meanwhile.
  bool promoted(const protocol::SlotRef& slot, std::uint64_t root, TierNumber from, std::uint32_t since_s);
  // The tier has let go of the slot.
  void promotion_failed(const protocol::SlotRef& slot);

  // ---- Tiers below the memory (store_below.cc); without one none of it costs anything ----
  // `listener` outlives the store, or is taken back with nullptr. From here on chunks that are evicted and not written count.
  void set_listener(TierNumber tier, ChunkListener* listener) { listeners_[tier] = listener; }
  // What stands there; nothing: it is not committed at this generation (any more).
  std::optional<protocol::EntryView> committed_chunk(std::uint32_t slot, std::uint64_t generation) const;
  std::span<const std::byte> slot_memory(const protocol::EntryView& chunk) const;
  // The tier has the chunk, or has it no more. Nothing where it is not committed at this generation.
  void mark_written(TierNumber tier, std::uint32_t slot, std::uint64_t generation, bool written = true);
  // Appends the coldest slots, coldest first, of every size that will soon have to evict: those that the tier should have. Not the ones
  // marked written there, unless they are asked for: a tier may have lost them since.
  void next_to_go(TierNumber tier, std::vector<protocol::SlotRef>& slots, bool also_written);
  // The same for the `most` slots from number `from` on, whatever their age. Returns where to go on; kNoSlot: that was all.
  std::uint32_t walk(TierNumber tier, std::uint32_t from, std::uint32_t most, std::vector<protocol::SlotRef>& slots,
                     bool also_written) const;

  // ---- Families, by block hash. Of a handle that is none all are absent. One slice a call, of one hash at least: what became of the
  // first all() of the list. Found: done, the family is there (evict: any of it); absent: it is not there, or not whole ----
  // Counts them as used.
  protocol::ActCounts prefetch(std::uint32_t handle, std::span<const protocol::BlockHash> hashes);
  // Keeps whole families from being evicted for room, up to a share of the arena (protocol::kPinnedShare). Pinned twice is
  // once; a pin belongs to no session and ends by unpin, evict, drop, clear, or with a bad chunk of the family.
  protocol::ActCounts pin(std::uint32_t handle, std::span<const protocol::BlockHash> hashes);
  protocol::ActCounts unpin(std::uint32_t handle, std::span<const protocol::BlockHash> hashes);
  // Dooms what is there, pinned or not; what is being written of it will not be committed. It goes from below as well. Refused: not
  // from there, which has too much to do or does not work.
  protocol::ActCounts evict(std::uint32_t handle, std::span<const protocol::BlockHash> hashes);

  // One chunk of a family: committed, granted (being written, or brought up), or kFree: not there.
  struct Member {
    protocol::Key key;
    protocol::SlotRef slot;
    protocol::SlotState state = protocol::SlotState::kFree;
  };
  // All of a family, in `members`; none where the handle is none.
  void look_at_family(std::uint32_t handle, const protocol::BlockHash& hash, std::vector<Member>& members);

  // ---- Work for idle moments ----
  // Look-ups done and slots looked at, ever: what bounds every call. A slice, or the search for room of a reserve() or sweep(),
  // ends with the family that makes it as long as this.
  std::uint64_t effort() const { return effort_; }
  static constexpr std::uint32_t kSliceEffort = 16'384;
  static constexpr std::uint32_t kReserveEffort = 8192;
  // Verifies one reported chunk. False if there is none.
  bool verify_next();
  // Frees doomed slots that nobody holds any more, and goes on with what is being drained.
  void sweep();

  // Writes the gauges and the namespaces into `stats`.
  void fill(stats::Stats& stats) const;
  void mark_index_dead() { index_.mark_dead(); }

 private:
  // A slot of the earlier life that is kept, where it stands, and as what.
  struct Found {
    std::uint32_t slot, start, pages;
    protocol::SlotState state;
  };
  using Handles = std::unordered_map<std::uint32_t, std::uint32_t>;  // of this life, by those of the earlier one
  Handles restore_namespaces(std::span<const EarlierName> names, Restored& restored);
  void restore_namespace(std::uint32_t earlier, std::span<const EarlierName> names, Handles& handles, Restored& restored);
  void leave_restored();
  std::vector<Found> find_kept(const Handles& handles, Restored& restored);
  protocol::SlotState kept_as(PreviousIndex::Entry& entry, const Handles& handles) const;
  void keep_apart(std::vector<Found>& found, Restored& restored);
  void restore_places(std::vector<Found>& found, Restored& restored);
  void enter(const Found& one, Restored& restored);
  void supersede_earlier();

  struct Session {
    const protocol::SessionRegion* region = nullptr;  // null once it has ended
    SessionCaps caps;
    bool silent = false;
    SessionNumber successor = kNoSession;  // under which its engine goes on
    SlotList granted;
    SlotList quarantined;
    std::uint64_t granted_bytes = 0;  // of both lists
    HoldWatch watch;
  };
  // What earlier sessions of the same engine still have.
  struct Inherited {
    std::uint32_t slots = 0;
    std::uint64_t bytes = 0;
  };

  // What each key of a RESERVE asks for.
  struct Wanted {
    IndexWriter::Place layout;
    std::uint64_t slot_bytes;
    std::uint32_t size_class;
  };

  protocol::Grant reserve_one(SessionNumber number, Session& session, const Inherited& earlier, const protocol::Key& key,
                              const Wanted& asked, std::uint32_t& may_examine);
  Wanted wanted(const protocol::GroupLayout& layout);
  protocol::Grant grant_slot(SessionNumber number, Session& session, const protocol::Key& key, const Wanted& asked,
                             std::uint32_t& may_examine);
  void enter_committed(Session& session, std::uint32_t slot, std::uint64_t root);
  void give_back(Session& session, std::uint32_t slot);
  Inherited inherited(SessionNumber session) const;
  // A slot comes to the session, or leaves it for good.
  void take_in(Session& session, std::uint32_t slot);
  void take_out(Session& session, SlotList& list, std::uint32_t slot);
  SlotArena::Slot take_slot(std::uint32_t size_class, std::uint32_t& may_examine);
  bool make_room(std::uint32_t size_class, std::uint32_t& may_examine);
  bool evict_of(std::uint32_t size_class, std::uint32_t& may_examine);
  std::optional<std::uint32_t> coldest_candidate() const;
  bool start_drain(std::uint32_t size_class);
  bool any_held(const SlotArena::Window& window);
  std::uint32_t go_on_draining(std::uint32_t& may_examine);
  std::uint32_t evict_families(std::span<const std::uint32_t> slots, std::size_t enough, std::uint32_t& may_examine,
                               std::uint64_t& counter);
  void claim_family(std::uint32_t slot);
  bool release_family(std::span<const std::uint32_t> slots);
  struct Family {
    std::vector<std::uint32_t> committed, granted;
    std::uint32_t expected = 0;
    bool whole() const { return committed.size() == expected; }
    void clear() { committed.clear(), granted.clear(), expected = 0; }
  };
  void find_family(std::uint32_t handle, const protocol::BlockHash& hash, Family& family, std::uint32_t known = kNoSlot);
  template <typename Verb>
  protocol::ActCounts each_family(std::uint32_t handle, std::span<const protocol::BlockHash> hashes, const Verb& verb);
  EvictedBelow evict_below(std::uint32_t handle, const protocol::BlockHash& hash);
  void pin_slot(std::uint32_t slot);
  void unpin_slot(std::uint32_t slot);
  void unpin_all(const Family& family);
  std::uint64_t slot_bytes(std::uint32_t slot) const;
  void enter_order(std::uint32_t slot);
  void touch_order(std::uint32_t slot);
  void leave_order(std::uint32_t slot);
  void prefetch_slot(std::uint32_t slot) const;
  void prefetch_family(std::uint32_t slot) const;
  void prefetch_freeing(std::uint32_t slot) const;
  void scan_holds(std::span<const std::uint32_t> slots);
  void free_slot(std::uint32_t slot);
  void free_doomed();
  void doom(std::uint32_t slot, SlotList& list);
  void quarantine(Session& session, std::uint32_t slot);
  void quarantine_all(Session& session);
  Session* owner(SessionNumber session, std::uint32_t slot, std::uint64_t generation);
  bool written_to(TierNumber tier, std::uint32_t slot) const { return (table_.note(slot).written >> tier & 1) != 0; }
  void count_lost(std::uint32_t slot);
  void announce(Drop& drop);
  void drop_slot(Drop& drop, std::uint32_t slot);
  // The slot's key is of its namespace, or not any more: with its last slot one that was left is given back.
  void enter_namespace(std::uint32_t slot) { ++namespaces_.at(index_.key(slot).namespace_handle).slots; }
  void leave_namespace_of(std::uint32_t slot);
  void detach(std::uint32_t slot);
  void give_back_unused(std::uint32_t handle);
  void count_in(std::uint32_t slot);
  void count_out(std::uint32_t slot);

  IndexWriter index_;
  SlotTable table_;
  SlotArena arena_;
  UseAges ages_;
  const std::byte* arena_memory_;
  stats::Stats& stats_;
  NamespaceTable namespaces_;
  std::unique_ptr<EvictionPolicy> policy_;
  std::unordered_map<SessionNumber, Session> sessions_;
  std::uint32_t succeeded_ = 0;  // of these, ended ones whose engine goes on
  SlotList pinned_;
  SlotList doomed_;
  SlotList unverified_;  // doomed, and not yet looked at
  struct Kept {
    std::uint64_t generation = 0, bytes = 0;
    std::uint32_t times = 0;
  };
  std::unordered_map<std::uint32_t, Kept> kept_;  // by slot
  std::uint64_t kept_bytes_ = 0;
  HoldScan holds_;
  std::vector<std::uint64_t> seen_;       // scratch of watch_holds()
  std::vector<SessionNumber> unwatched_;  // that watch_holds() has still to look at in this round; some may have ended
  // Kept, so that evicting allocates nothing.
  std::vector<std::uint32_t> batch_;       // of evict_families() and sweep(), made not committed
  std::vector<std::uint32_t> family_end_;  // in batch_
  std::vector<std::uint32_t> victims_;     // asked to go
  Family family_;
  std::array<ChunkListener*, kMaxTiers> listeners_{};  // by tier; null: there is none
  std::optional<PreviousIndex> earlier_;               // in which engines may still look up
  bool settling_ = false;
  std::uint64_t touched_bytes_ = 0;
  std::uint32_t granted_ = 0, quarantined_ = 0, committed_ = 0;
  std::uint64_t committed_bytes_ = 0, pinned_bytes_ = 0;
  std::uint64_t effort_ = 0;
};

}  // namespace larder::store

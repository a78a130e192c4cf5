// SessionBook: which session may write which slot, until when, and whose holds count.
//
// Holds count while the session lives and its heartbeat goes on; grants outlive the session in
// quarantine. The loop chooses session numbers, and uses a number once in one run. Owned by the
// thread of the store.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "shim/protocol/messages.h"
#include "shim/protocol/session_layout.h"
#include "sidecar/stats/stats.h"
#include "sidecar/store/chunk_table.h"
#include "sidecar/store/hold_scan.h"
#include "sidecar/store/hold_watch.h"

namespace larder::store {

using SessionNumber = std::uint32_t;
inline constexpr SessionNumber kNoSession = 0xffffffff;
// larderd itself, which writes promoted chunks
inline constexpr SessionNumber kOwnSession = 0xfffffffe;

// The caps of one session in bytes of slots: half of the arena each
// (protocol::kSessionGrantedShare, kSessionHeldShare). The first chunk is granted whatever its
// size. watch_holds() checks held bytes once a tick, so that a scan for room costs nothing more.
struct SessionCaps {
  std::uint64_t granted_bytes = UINT64_MAX;
  std::uint64_t held_bytes = UINT64_MAX;
};

// The use of a session.
struct SessionUse {
  std::uint32_t grants, holds;  // grants: granted and quarantined slots
  std::uint64_t granted_bytes, held_bytes;
};

class SessionBook {
 public:
  struct Session {
    const protocol::SessionRegion* region = nullptr;  // null after the end
    SessionCaps caps;
    bool silent = false;
    SessionNumber successor = kNoSession;  // the session in which the engine goes on
    SlotList granted;
    SlotList quarantined;
    std::uint64_t granted_bytes = 0;  // of both lists
    HoldWatch watch;
  };
  // The slots that earlier sessions of the same engine still have.
  struct Inherited {
    std::uint32_t slots = 0;
    std::uint64_t bytes = 0;
  };

  // Both outlive this object.
  SessionBook(ChunkTable& chunks, stats::Stats& stats);
  SessionBook(const SessionBook&) = delete;

  // ---- Sessions ----
  // `region` stays mapped until end().
  void add(SessionNumber session, const protocol::SessionRegion& region,
           const SessionCaps& caps = {});
  // The holds of a silent session do not count, and its grants are quarantined. The session may
  // still commit or disown these grants, which frees the slots.
  void set_silent(SessionNumber session, bool silent);
  // Ends the holds at once, and quarantines the grants until release_quarantine(). Returns whether
  // grants are left.
  bool end(SessionNumber session);
  // The writer of the session has surely stopped: frees its grants and forgets the session.
  // REQUIRES: end().
  void release_quarantine(SessionNumber session);
  // The engine of the session `earlier` goes on as `session`. If the list `still_written` is
  // `complete`, grants outside of the list are free now. `session` may commit or disown the others.
  // Returns the number of freed slots.
  // REQUIRES: `earlier` has ended.
  std::uint32_t succeed(SessionNumber session, SessionNumber earlier,
                        std::span<const protocol::SlotRef> still_written, bool complete);
  // Appends the grants of the session up to `generation`, and all its quarantined slots.
  void overdue(SessionNumber session, std::uint64_t generation,
               std::vector<protocol::SlotRef>& slots) const;
  // Quarantines one grant, as if the session were silent. False: the session does not have this
  // grant.
  bool quarantine_grant(SessionNumber session, const protocol::SlotRef& slot);
  // Finds holds that are too old or too many (see HoldWatch), once a tick. A pass over many full
  // tables takes several ticks: kPlacesATick places a tick, and the rest of one session. `restart`:
  // larderd was stopped for a while.
  static constexpr std::size_t kPlacesATick = 8ULL * protocol::kMaxHolds;
  void watch_holds(std::uint64_t now_ms, bool restart);
  // Holds are as of the last watch_holds().
  SessionUse use_of(SessionNumber session) const;
  std::uint32_t grants_of(SessionNumber session) const { return use_of(session).grants; }
  // The chunk that this session may write into the slot at this generation; empty without such a
  // grant, and for a quarantined grant.
  std::optional<protocol::EntryView> granted_chunk(SessionNumber session,
                                                   const protocol::SlotRef& slot);

  // ---- Grants: for the other parts of the store ----
  // REQUIRES: a known session.
  Session& at(SessionNumber session) { return sessions_.at(session); }
  const Session& at(SessionNumber session) const { return sessions_.at(session); }
  // The session of larderd itself, made at the first use.
  Session& own() { return sessions_[kOwnSession]; }
  // The session that has the grant, of `number` or of a session that `number` succeeds. Null
  // without such a grant.
  Session* owner(SessionNumber number, std::uint32_t slot, std::uint64_t generation) {
    if (slot >= table_.end() || index_.generation(slot) != generation) return nullptr;
    const protocol::SlotState state = index_.state(slot);
    if (state != protocol::SlotState::kGranted && state != protocol::SlotState::kQuarantined)
      return nullptr;
    const auto found = sessions_.find(index_.session(slot));
    if (found == sessions_.end() || (found->first != number && found->second.successor != number))
      return nullptr;
    return &found->second;
  }
  Inherited inherited(SessionNumber session) const;
  // Whether the caps of the session allow one more slot.
  static bool may_take(const Session& session, const Inherited& earlier, std::uint64_t slot_bytes) {
    const std::uint64_t granted = session.granted_bytes + earlier.bytes;
    return session.granted.count + session.quarantined.count + earlier.slots <
               protocol::kMaxGrants &&
           (granted == 0 || slot_bytes <= session.caps.granted_bytes -
                                              std::min(granted, session.caps.granted_bytes));
  }
  // Adds a slot to the session, or removes it for good.
  void take_in(Session& session, std::uint32_t slot) {
    table_.push_back(session.granted, slot);
    session.granted_bytes += chunks_.slot_bytes(slot);
    ++granted_;
  }
  void take_out(Session& session, SlotList& list, std::uint32_t slot) {
    table_.remove(list, slot);
    session.granted_bytes -= chunks_.slot_bytes(slot);
    --(&list == &session.granted ? granted_ : quarantined_);
  }
  // Sets aside a slot with a writer that may still write. The key is free for other sessions.
  void quarantine(Session& session, std::uint32_t slot);
  // Frees a slot without a writer, from either list of the session.
  void give_back(Session& session, std::uint32_t slot);
  std::uint32_t granted() const { return granted_; }

  // Looks for the holds of all living sessions with a heartbeat.
  void scan(HoldScan& holds) const;

  // ---- A warm restart ----
  // A session of the earlier larderd that may still write: its grants are quarantined.
  void expect(SessionNumber session) { sessions_[session]; }
  bool contains(SessionNumber session) const { return sessions_.contains(session); }
  // Quarantines a slot of an expected session.
  void adopt(std::uint32_t slot);

  // Writes the gauges of grants and holds into `stats`.
  void fill(stats::Stats& stats) const;

 private:
  void quarantine_all(Session& session);

  ChunkTable& chunks_;
  IndexWriter& index_;  // these two are of chunks_
  SlotTable& table_;
  stats::Stats& stats_;
  std::unordered_map<SessionNumber, Session> sessions_;
  std::uint32_t succeeded_ = 0;  // ended sessions with a successor
  std::uint32_t granted_ = 0, quarantined_ = 0;
  std::vector<std::uint64_t> seen_;  // scratch of watch_holds()
  // Sessions left for watch_holds() in this round; some may have ended.
  std::vector<SessionNumber> unwatched_;
};

}  // namespace larder::store

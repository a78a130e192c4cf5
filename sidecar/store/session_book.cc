#include "sidecar/store/session_book.h"

namespace larder::store {

using protocol::SlotState;

SessionBook::SessionBook(ChunkTable& chunks, stats::Stats& stats)
    : chunks_(chunks), index_(chunks.index()), table_(chunks.table()), stats_(stats) {}

void SessionBook::add(SessionNumber number, const protocol::SessionRegion& region,
                      const SessionCaps& caps) {
  Session& session = sessions_[number];
  session.region = &region;
  session.caps = caps;
}

void SessionBook::set_silent(SessionNumber number, bool silent) {
  Session& session = sessions_.at(number);
  // A silent session (no heartbeat) may be a stopped process that writes on once it wakes. Its
  // grants are quarantined, and its holds stop counting.
  session.silent = silent;
  if (silent) quarantine_all(session);  // mutation: silent-grants
}

bool SessionBook::end(SessionNumber number) {
  Session& session = sessions_.at(number);
  // The mapping ends with the session. From here on no scan reads its holds.
  session.region = nullptr;
  session.watch = {};
  quarantine_all(session);
  return session.quarantined.count != 0;
}

void SessionBook::release_quarantine(SessionNumber number) {
  Session& session = sessions_.at(number);
  while (session.quarantined.count != 0) {
    const std::uint32_t slot = session.quarantined.first;
    take_out(session, session.quarantined, slot);
    chunks_.free_slot(slot);
  }
  succeeded_ -= session.successor != kNoSession;
  sessions_.erase(number);
}

SessionBook::Inherited SessionBook::inherited(SessionNumber number) const {
  Inherited sum;
  if (succeeded_ == 0) return sum;
  for (const auto& [earlier, session] : sessions_) {
    // Slots of the earlier session count against the new one: an engine that attaches again and
    // again gets no more than one share.
    if (session.successor != number) continue;
    sum.slots += session.quarantined.count;
    sum.bytes += session.granted_bytes;
  }
  return sum;
}

SessionUse SessionBook::use_of(SessionNumber number) const {
  const Session& session = sessions_.at(number);
  const Inherited earlier = inherited(number);
  return {session.granted.count + session.quarantined.count + earlier.slots, session.watch.holds(),
          session.granted_bytes + earlier.bytes, session.watch.bytes()};
}

std::uint32_t SessionBook::succeed(SessionNumber number, SessionNumber earlier,
                                   std::span<const protocol::SlotRef> still_written,
                                   bool complete) {
  Session& session = sessions_.at(earlier);
  succeeded_ += session.successor == kNoSession;
  session.successor = number;
  // An incomplete list proves nothing: a slot missing from it may still be written. All slots stay
  // quarantined.
  if (!complete) return 0;
  std::unordered_map<std::uint32_t, std::uint64_t> written;
  for (const protocol::SlotRef& ref : still_written) written.emplace(ref.slot, ref.generation);
  std::uint32_t back = 0;
  for (std::uint32_t slot = session.quarantined.first; slot != kNoSlot;) {
    const std::uint32_t next = table_.next(slot);
    const auto listed = written.find(slot);
    if (listed == written.end() ||
        listed->second != index_.generation(slot)) {  // mutation: reattach-grants
      take_out(session, session.quarantined, slot);
      chunks_.free_slot(slot);
      ++back;
    }
    slot = next;
  }
  stats_.grants_reclaimed += back;
  return back;
}

void SessionBook::overdue(SessionNumber number, std::uint64_t generation,
                          std::vector<protocol::SlotRef>& slots) const {
  const Session& session = sessions_.at(number);
  // The list is in the order of granting, so the walk stops at the first young grant.
  for (std::uint32_t slot = session.granted.first;
       slot != kNoSlot && index_.generation(slot) <= generation; slot = table_.next(slot))
    slots.push_back({slot, 0, index_.generation(slot)});
  for (std::uint32_t slot = session.quarantined.first; slot != kNoSlot; slot = table_.next(slot))
    slots.push_back({slot, 0, index_.generation(slot)});
}

bool SessionBook::quarantine_grant(SessionNumber number, const protocol::SlotRef& ref) {
  Session* session = owner(number, ref.slot, ref.generation);
  if (session == nullptr || index_.state(ref.slot) != SlotState::kGranted) return false;
  quarantine(*session, ref.slot);
  return true;
}

void SessionBook::watch_holds(std::uint64_t now_ms, bool restart) {
  if (restart)
    for (auto& [number, session] : sessions_) session.watch.restart(now_ms);
  if (unwatched_.empty())
    for (const auto& [number, session] : sessions_) unwatched_.push_back(number);
  for (std::size_t places = 0; places < kPlacesATick && !unwatched_.empty();
       unwatched_.pop_back()) {
    const auto found = sessions_.find(unwatched_.back());
    // A tick looks at a bounded number of holds, over all sessions in turn: the loop has other
    // work.
    if (found == sessions_.end() || found->second.region == nullptr) continue;
    Session& session = found->second;
    session.watch.look(*session.region, index_, now_ms, session.caps.held_bytes, seen_, stats_);
    places += session.watch.places();
  }
}

void SessionBook::quarantine(Session& session, std::uint32_t slot) {
  index_.erase_key(slot);
  index_.set_state(slot, SlotState::kQuarantined);
  table_.remove(session.granted, slot);
  table_.push_back(session.quarantined, slot);
  --granted_;
  ++quarantined_;
  chunks_.detach(slot);
}

void SessionBook::quarantine_all(Session& session) {
  while (session.granted.count != 0) quarantine(session, session.granted.first);
}

// Requests of sessions are hostile: slot and generation must be a grant of this very session. A
// wrong request costs its own session only.
std::optional<protocol::EntryView> SessionBook::granted_chunk(SessionNumber session,
                                                              const protocol::SlotRef& ref) {
  if (owner(session, ref.slot, ref.generation) == nullptr ||
      index_.state(ref.slot) != SlotState::kGranted)
    return std::nullopt;
  return index_.view(ref.slot);
}

void SessionBook::give_back(Session& session, std::uint32_t slot) {
  if (index_.state(slot) == SlotState::kGranted) {
    index_.erase_key(slot);
    take_out(session, session.granted, slot);
  } else {
    take_out(session, session.quarantined, slot);
  }
  chunks_.free_slot(slot);
}

void SessionBook::scan(HoldScan& holds) const {
  for (const auto& [number, session] : sessions_)
    if (session.region != nullptr && !session.silent)  // mutation: silent-holds
      holds.run(*session.region, index_, session.watch);
}

void SessionBook::adopt(std::uint32_t slot) {
  Session& session = sessions_.at(index_.session(slot));
  table_.push_back(session.quarantined, slot);
  session.granted_bytes += chunks_.slot_bytes(slot);
  ++quarantined_;
}

void SessionBook::fill(stats::Stats& stats) const {
  stats.slots_granted = granted_;
  stats.slots_quarantined = quarantined_;
  stats.grants = granted_ + quarantined_;
  stats.holds = stats.held_bytes = stats.granted_bytes = 0;
  for (const auto& [number, session] : sessions_) {
    stats.holds += session.watch.holds();
    stats.held_bytes += session.watch.bytes();
    stats.granted_bytes += session.granted_bytes;
  }
}

}  // namespace larder::store

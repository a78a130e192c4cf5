// Sessions of the store. Holds count while the session lives and its heartbeat goes on; grants
// outlive the session in quarantine.
#include "sidecar/store/store.h"

namespace larder::store {

using protocol::SlotState;

void Store::add_session(SessionNumber number, const protocol::SessionRegion& region, const SessionCaps& caps) {
  Session& session = sessions_[number];
  session.region = &region;
  session.caps = caps;
}

void Store::set_silent(SessionNumber number, bool silent) {
  Session& session = sessions_.at(number);
  session.silent = silent;
  if (silent) quarantine_all(session);  // mutation: silent-grants
}

bool Store::end_session(SessionNumber number) {
  Session& session = sessions_.at(number);
  session.region = nullptr;
  session.watch = {};
  quarantine_all(session);
  return session.quarantined.count != 0;
}

void Store::release_quarantine(SessionNumber number) {
  Session& session = sessions_.at(number);
  while (session.quarantined.count != 0) {
    const std::uint32_t slot = session.quarantined.first;
    take_out(session, session.quarantined, slot);
    chunks_.free_slot(slot);
  }
  succeeded_ -= session.successor != kNoSession;
  sessions_.erase(number);
}

void Store::take_in(Session& session, std::uint32_t slot) {
  table_.push_back(session.granted, slot);
  session.granted_bytes += chunks_.slot_bytes(slot);
  ++granted_;
}

void Store::take_out(Session& session, SlotList& list, std::uint32_t slot) {
  table_.remove(list, slot);
  session.granted_bytes -= chunks_.slot_bytes(slot);
  --(&list == &session.granted ? granted_ : quarantined_);
}

Store::Inherited Store::inherited(SessionNumber number) const {
  Inherited sum;
  if (succeeded_ == 0) return sum;
  for (const auto& [earlier, session] : sessions_) {
    if (session.successor != number) continue;
    sum.slots += session.quarantined.count;
    sum.bytes += session.granted_bytes;
  }
  return sum;
}

Store::SessionUse Store::use_of(SessionNumber number) const {
  const Session& session = sessions_.at(number);
  const Inherited earlier = inherited(number);
  return {session.granted.count + session.quarantined.count + earlier.slots, session.watch.holds(),
          session.granted_bytes + earlier.bytes, session.watch.bytes()};
}

std::uint32_t Store::succeed(SessionNumber number, SessionNumber earlier, std::span<const protocol::SlotRef> still_written,
                             bool complete) {
  Session& session = sessions_.at(earlier);
  succeeded_ += session.successor == kNoSession;
  session.successor = number;
  if (!complete) return 0;
  std::unordered_map<std::uint32_t, std::uint64_t> written;
  for (const protocol::SlotRef& ref : still_written) written.emplace(ref.slot, ref.generation);
  std::uint32_t back = 0;
  for (std::uint32_t slot = session.quarantined.first; slot != kNoSlot;) {
    const std::uint32_t next = table_.next(slot);
    const auto listed = written.find(slot);
    if (listed == written.end() || listed->second != index_.generation(slot)) {  // mutation: reattach-grants
      take_out(session, session.quarantined, slot);
      chunks_.free_slot(slot);
      ++back;
    }
    slot = next;
  }
  stats_.grants_reclaimed += back;
  return back;
}

void Store::overdue(SessionNumber number, std::uint64_t generation, std::vector<protocol::SlotRef>& slots) const {
  const Session& session = sessions_.at(number);
  // The list is in the order of granting, so the walk stops at the first young grant.
  for (std::uint32_t slot = session.granted.first; slot != kNoSlot && index_.generation(slot) <= generation;
       slot = table_.next(slot))
    slots.push_back({slot, 0, index_.generation(slot)});
  for (std::uint32_t slot = session.quarantined.first; slot != kNoSlot; slot = table_.next(slot))
    slots.push_back({slot, 0, index_.generation(slot)});
}

bool Store::quarantine_grant(SessionNumber number, const protocol::SlotRef& ref) {
  Session* session = owner(number, ref.slot, ref.generation);
  if (session == nullptr || index_.state(ref.slot) != SlotState::kGranted) return false;
  quarantine(*session, ref.slot);
  return true;
}

void Store::watch_holds(std::uint64_t now_ms, bool restart) {
  if (restart)
    for (auto& [number, session] : sessions_) session.watch.restart(now_ms);
  if (unwatched_.empty())
    for (const auto& [number, session] : sessions_) unwatched_.push_back(number);
  for (std::size_t places = 0; places < kPlacesATick && !unwatched_.empty(); unwatched_.pop_back()) {
    const auto found = sessions_.find(unwatched_.back());
    if (found == sessions_.end() || found->second.region == nullptr) continue;
    Session& session = found->second;
    session.watch.look(*session.region, index_, now_ms, session.caps.held_bytes, seen_, stats_);
    places += session.watch.places();
  }
}

// Sets aside a slot with a writer that may still write. The key is free for other sessions.
void Store::quarantine(Session& session, std::uint32_t slot) {
  index_.erase_key(slot);
  index_.set_state(slot, SlotState::kQuarantined);
  table_.remove(session.granted, slot);
  table_.push_back(session.quarantined, slot);
  --granted_;
  ++quarantined_;
  chunks_.detach(slot);
}

void Store::quarantine_all(Session& session) {
  while (session.granted.count != 0) quarantine(session, session.granted.first);
}

}  // namespace larder::store

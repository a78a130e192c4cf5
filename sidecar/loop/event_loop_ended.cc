// Sessions that end, and ended sessions with an engine that may still write.
#include "sidecar/base/log_throttle.h"
#include "sidecar/loop/event_loop.h"
#include "sidecar/session/session_name.h"

namespace larder::loop {

using protocol::kDeviceSettlingMs;

// The kernel released the locks of the process before. release_ended() frees the grants now,
// without waiting for the next tick.
void EventLoop::process_ended(std::uint32_t number) {
  end_session(number, "its process ended");
  const auto ended = ended_.find(number);
  if (ended == ended_.end()) return;
  ended->second.pidfd.reset();  // an unread pidfd stays readable
  release_ended();
}

void EventLoop::end_session(std::uint32_t number, const std::string& why) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  const std::unique_ptr<session::Connection> connection = std::move(found->second);
  connections_.erase(found);
  if (connection->protocol.state() != session::SessionProtocol::State::kAttached) {
    base::log_debug(session::session_name(*connection) + " ended before it was attached: " + why);
    return;
  }
  if (!connection->protocol.told())
    base::log_debug(session::session_name(*connection) + " ended before it opened a namespace: " + why);
  ++stats_.sessions_ended;
  shows_now_ = true;
  if (lower_tiers_) lower_tiers_->end_session(number);
  if (transfers_) transfers_->end_session(number);
  drain_events(*connection);
  connection->protocol.leave_namespaces();
  await_again(connection->protocol);  // mutation: lost-again-awaited
  const std::uint32_t grants = store_.sessions().grants_of(number);
  const bool quarantined = store_.sessions().end(number);
  const std::string set_aside = grants == 0 ? "" : ", " + std::to_string(grants) + " grants quarantined";
  if (connection->protocol.told() && (!why.empty() || grants != 0))
    base::log_from(session::log_source(connection->protocol.facts().peer, "ended"), base::LogLevel::kInfo,
                   session::session_name(*connection) + " ended" + (why.empty() ? "" : ": " + why) + set_aside);
  const bool copying = transfers_ && transfers_->busy(number);
  if (quarantined &&
      (copying || connection->lock.held() || connection->lock.device_writes())) {  // mutation: lost-grants, lost-grants-gpu
    const session::SessionFacts& facts = connection->protocol.facts();
    ended_.emplace(number, Ended{std::move(connection->lock), std::move(connection->pidfd), {facts.token, facts.epoch}});
  } else {
    store_.sessions().release_quarantine(number);
  }
}

// Ends the previous session of an engine that attached again, even if larderd has not seen the end.
// Grants that the engine does not list are free. Listed grants stay quarantined under the lock of
// the previous session.
void EventLoop::take_over(const session::SessionProtocol& session) {
  const std::uint32_t number = session.facts().number;
  for (const auto& [earlier, connection] : connections_) {
    if (earlier == number || connection->protocol.facts().token != session.previous_session() ||
        session.previous_epoch() != parts_.shape.epoch)
      continue;
    end_session(earlier, "its engine attached anew");
    break;
  }
  for (auto next = ended_.begin(); next != ended_.end();) {
    auto& [earlier, ended] = *next;
    if (!ended.note.names(session.previous_session(), session.previous_epoch())) {
      ++next;
      continue;
    }
    awaited_.erase(earlier);
    // Before the answer to its OPEN_NAMESPACE the engine names the earlier session when it attaches
    // again, so the note keeps both names.
    ended.note = {session.facts().token, session.facts().epoch, session.previous_session(),
                  session.previous_epoch()};  // mutation: ended-both-names
    if (Status noted = ended.lock.write(ended.note); !noted.ok())
      base::log_from("lock files", base::LogLevel::kWarning, noted.text());
    // The list of the engine is not complete while larderd may copy for the previous session.
    const bool complete = session.still_written_is_complete() && !(transfers_ && transfers_->busy(earlier));
    const std::uint32_t back = store_.sessions().succeed(number, earlier, session.still_written(), complete);
    base::log_from(session::log_source(session.facts().peer, "attached anew"), base::LogLevel::kInfo,
                   "session " + std::to_string(earlier) + " goes on as " + std::to_string(number) + ": " + std::to_string(back) +
                       " of its grants are free, " + std::to_string(store_.sessions().grants_of(earlier)) + " are still written");
    if (ended.previous_instance || store_.sessions().grants_of(earlier) != 0) {  // mutation: reattached-awaited
      ++next;
      continue;
    }
    store_.sessions().release_quarantine(earlier);
    next = ended_.erase(next);
  }
}

// The end of a session during the recovery grace voids its announcements: its engine must announce
// holds and grants again.
void EventLoop::await_again(const session::SessionProtocol& session) {
  if (!store_.settling()) return;
  for (const auto& [earlier, ended] : ended_)
    if (ended.previous_instance && ended.note.token == session.facts().token) awaited_.insert(earlier);
}

// Whether slots of an ended session may still be written: by its process (the lock is held), by its
// GPU (for kDeviceSettlingMs more), or by a copy of larderd.
bool EventLoop::may_still_write(std::uint32_t number, Ended& ended) const {
  if (ended.lock.held() || (transfers_ && transfers_->busy(number))) return true;
  if (!ended.lock.device_writes() && !(ended.previous_instance && ended.lock.sidecar_writes())) return false;
  const std::uint64_t now_ms = clock_.now_ms();
  if (ended.free_at_ms == 0) {
    ended.free_at_ms = now_ms + kDeviceSettlingMs;  // mutation: gpu-settle-start
    base::log_from("settling GPUs", base::LogLevel::kInfo,
                   "session " + std::to_string(number) + ": its process has stopped; its GPU may still write for " +
                       std::to_string(kDeviceSettlingMs) + " ms");
  }
  return now_ms < ended.free_at_ms;  // mutation: gpu-settles, gpu-settled
}

void EventLoop::release_ended() {
  for (auto next = ended_.begin(); next != ended_.end();) {
    if (may_still_write(next->first, next->second)) {
      ++next;
      continue;
    }
    base::log_from("freed grants", base::LogLevel::kInfo,
                   "session " + std::to_string(next->first) + ": its process has stopped, its grants are free");
    awaited_.erase(next->first);
    store_.sessions().release_quarantine(next->first);  // mutation: lost-grants-back
    shows_now_ = true;
    next = ended_.erase(next);
  }
}

}  // namespace larder::loop

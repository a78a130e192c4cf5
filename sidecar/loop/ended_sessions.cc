#include "sidecar/loop/ended_sessions.h"

#include <algorithm>
#include <string>

#include "sidecar/base/log_throttle.h"

namespace larder::loop {

using protocol::kDeviceSettlingMs;

std::vector<store::SessionNumber> EndedSessions::restore(memory::PreviousInstance& earlier) {
  std::vector<store::SessionNumber> alive;
  // Both kinds are restored: sessions with a living process, and sessions with a GPU that may still
  // write.
  earlier.sessions.merge(earlier.device_writing);
  for (auto& [number, lock] : earlier.sessions) {
    const memory::LockFile::Note note = lock.read();
    // From here on this larderd owns the file, and removes the file with the session.
    lock.set_kept(false);
    alive.push_back(number);
    awaited_.insert(number);
    ended_.emplace(number,
                   Ended{std::move(lock), Fd(), note, true});  // mutation: restart-grants-back
  }
  earlier.sessions.clear();
  std::erase_if(awaited_, [this](std::uint32_t number) {
    return !ended_.at(number).lock.held();
  });  // their processes are gone
  return alive;
}

void EndedSessions::add(const session::SessionFacts& facts, memory::LockFile lock, Fd pidfd) {
  ended_.emplace(facts.number,
                 Ended{std::move(lock), std::move(pidfd), {facts.token, facts.epoch}});
}

bool EndedSessions::forget_pidfd(std::uint32_t number) {
  const auto ended = ended_.find(number);
  if (ended == ended_.end()) return false;
  // The descriptor closes, so epoll no longer reports the ended process at every turn.
  ended->second.pidfd.reset();
  return true;
}

void EndedSessions::take_over(const session::SessionProtocol& session) {
  const std::uint32_t number = session.facts().number;
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
    const bool complete =
        session.still_written_is_complete() && !(transfers_ && transfers_->busy(earlier));
    const std::uint32_t back =
        store_.sessions().succeed(number, earlier, session.still_written(), complete);
    base::log_from(session::log_source(session.facts().peer, "attached anew"),
                   base::LogLevel::kInfo,
                   "session " + std::to_string(earlier) + " goes on as " + std::to_string(number) +
                       ": " + std::to_string(back) + " of its grants are free, " +
                       std::to_string(store_.sessions().grants_of(earlier)) + " are still written");
    if (ended.previous_instance ||
        store_.sessions().grants_of(earlier) != 0) {  // mutation: reattached-awaited
      ++next;
      continue;
    }
    // No grant is left that the engine writes: the slots are free at once, without a wait for the
    // lock.
    store_.sessions().release_quarantine(earlier);
    next = ended_.erase(next);
  }
}

void EndedSessions::await_again(const session::SessionProtocol& session) {
  if (!store_.in_recovery_grace()) return;
  for (const auto& [earlier, ended] : ended_)
    if (ended.previous_instance && ended.note.token == session.facts().token)
      awaited_.insert(earlier);
}

// Whether slots of an ended session may still be written: by its process (the lock is held), by its
// GPU (for kDeviceSettlingMs more), or by a copy of larderd.
bool EndedSessions::may_still_write(std::uint32_t number, Ended& ended) const {
  if (ended.lock.held() || (transfers_ && transfers_->busy(number))) return true;
  if (!ended.lock.device_writes() && !(ended.previous_instance && ended.lock.sidecar_writes()))
    return false;
  const std::uint64_t now_ms = clock_.now_ms();
  if (ended.free_at_ms == 0) {
    ended.free_at_ms = now_ms + kDeviceSettlingMs;  // mutation: gpu-settle-start
    base::log_from("settling GPUs", base::LogLevel::kInfo,
                   "session " + std::to_string(number) +
                       ": its process has stopped; its GPU may still write for " +
                       std::to_string(kDeviceSettlingMs) + " ms");
  }
  return now_ms < ended.free_at_ms;  // mutation: gpu-settles, gpu-settled
}

void EndedSessions::release() {
  for (auto next = ended_.begin(); next != ended_.end();) {
    if (may_still_write(next->first, next->second)) {
      ++next;
      continue;
    }
    base::log_from("freed grants", base::LogLevel::kInfo,
                   "session " + std::to_string(next->first) +
                       ": its process has stopped, its grants are free");
    awaited_.erase(next->first);
    // The kernel releases the record lock after the last thread of the process has ended, so no
    // store can follow.
    store_.sessions().release_quarantine(next->first);  // mutation: lost-grants-back
    loop_stats_.show_soon();
    next = ended_.erase(next);
  }
}

std::size_t EndedSessions::taken() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      ended_, [](const auto& ended) { return !ended.second.previous_instance; }));
}

void EndedSessions::keep_locks() {
  for (auto& [number, ended] : ended_)
    // Both writers outlive a stop of larderd: the process, and its GPU for kDeviceSettlingMs.
    ended.lock.set_kept(ended.lock.held() || ended.lock.device_writes());
}

}  // namespace larder::loop

#include "sidecar/loop/session_table.h"

#include <string>

#include "shim/protocol/packet.h"
#include "shim/protocol/transfer_messages.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/loop/wakeups.h"
#include "sidecar/session/session_name.h"

namespace larder::loop {

SessionTable::SessionTable(const Neighbours& neighbours)
    : parts_(neighbours.parts),
      store_(neighbours.services.store),
      stats_(neighbours.services.stats),
      clock_(neighbours.services.clock),
      reuse_tracker_(*neighbours.services.reuse_tracker),
      transfers_(neighbours.services.transfers),
      lower_tiers_(neighbours.lower_tiers),
      ended_(neighbours.ended),
      loop_stats_(neighbours.loop_stats) {}

void SessionTable::insert(std::unique_ptr<session::Connection> connection) {
  connections_.emplace(connection->protocol.facts().number, std::move(connection));
}

session::Connection* SessionTable::find(std::uint32_t number) {
  const auto found = connections_.find(number);
  return found == connections_.end() ? nullptr : found->second.get();
}

Status SessionTable::send(session::Connection& connection, std::vector<std::byte> packet, std::span<const int> fds) {
  const bool waited = !connection.answers.empty();
  Status sent = connection.answers.send(connection.socket, std::move(packet), fds);
  if (!sent.ok() || waited || connection.answers.empty()) return sent;
  return watch_room(parts_.epoll, connection.socket, {WakeupSource::kSocket, connection.protocol.facts().number}, true);
}

void SessionTable::answer_later(std::uint32_t session, std::vector<std::byte> packet) {
  session::Connection* const connection = find(session);
  if (connection == nullptr) return;
  if (Status sent = send(*connection, std::move(packet)); !sent.ok()) fail(session, sent);
}

void SessionTable::send_transfer(const transfer::Answer& answer) {
  loop_stats_.show_soon();
  const auto found = connections_.find(answer.session);
  if (found == connections_.end()) return;
  if (answer.refusal.refused())
    base::log_from(session::log_source(found->second->protocol.facts().peer, "EXPORT"), base::LogLevel::kWarning,
                   session::session_name(*found->second) + " copies by itself (" +
                       std::string(protocol::transfer_reason_name(answer.refusal.reason)) + "): " + answer.refusal.text);
  else if (!answer.withdrawn)
    note_copies(*found->second);  // mutation: own-copy-noted
  const int region = answer.with_region ? transfers_->region_fd(answer.session) : -1;
  if (Status sent = send(*found->second, session::transfer_packet(answer), {&region, answer.with_region ? 1U : 0U}); !sent.ok())
    fail(answer.session, sent);
}

// Written before the first copy: after a kill of larderd its GPU may still copy into slots, and the
// next larderd must know.
void SessionTable::note_copies(const session::Connection& connection) {
  if (Status noted = connection.lock.note_sidecar_writes(); !noted.ok())
    loop_stats_.note_fallback("restart",
                              "after a restart a slot may be given on too soon, which costs its chunk: " + noted.text());
}

void SessionTable::flush(std::uint32_t number) {
  const auto found = connections_.find(number);
  if (found == connections_.end() || found->second->answers.empty()) return;
  session::Connection& connection = *found->second;
  Status status = connection.answers.flush(connection.socket);
  if (status.ok() && connection.answers.empty())
    status = watch_room(parts_.epoll, connection.socket, {WakeupSource::kSocket, number}, false);
  if (!status.ok()) end(number, status.text());
}

void SessionTable::fail(std::uint32_t number, const Status& why) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  const bool malformed = why.code() == Code::kInvalidArgument || why.code() == Code::kFailedPrecondition ||
                         why.code() == Code::kOutOfRange || why.code() == Code::kUnsupported;
  if (malformed) ++stats_.protocol_errors;
  // A session without a log line so far counts as refused. The source is the user and not the
  // process: a client that keeps connecting may use a new process each time.
  const bool told = malformed || (!found->second->protocol.told() && why.code() == Code::kResourceExhausted);
  // Only a session that was never served means an engine without a cache. No engine sends a message
  // that ends with one of the two codes.
  if (told && !found->second->protocol.told() && why.code() != Code::kInvalidArgument && why.code() != Code::kFailedPrecondition)
    loop_stats_.note_refused(why.text(), clock_.now_ms());
  if (told)
    base::log_refusal(found->second->protocol.facts().peer.user, why.to_string(), base::LogLevel::kWarning,
                      session::session_name(*found->second) + " is ended: " + why.to_string());
  // Best effort: the closed socket tells an engine that does not read.
  [[maybe_unused]] const Status sent = protocol::send_packet(found->second->socket.get(), session::error_packet(why));
  end(number, told ? "" : why.text());
}

// release() frees the grants now, without waiting for the next tick.
void SessionTable::process_ended(std::uint32_t number) {
  end(number, "its process ended");
  if (ended_.forget_pidfd(number)) ended_.release();
}

void SessionTable::end(std::uint32_t number, const std::string& why) {
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
  loop_stats_.show_soon();
  if (lower_tiers_) lower_tiers_->end_session(number);
  if (transfers_) transfers_->end_session(number);
  drain_events(*connection);
  connection->protocol.leave_namespaces();
  ended_.await_again(connection->protocol);  // mutation: lost-again-awaited
  const std::uint32_t grants = store_.use_of(number).grants;
  const bool quarantined = store_.end_session(number);
  const std::string set_aside = grants == 0 ? "" : ", " + std::to_string(grants) + " grants quarantined";
  if (connection->protocol.told() && (!why.empty() || grants != 0))
    base::log_from(session::log_source(connection->protocol.facts().peer, "ended"), base::LogLevel::kInfo,
                   session::session_name(*connection) + " ended" + (why.empty() ? "" : ": " + why) + set_aside);
  const bool copying = transfers_ && transfers_->busy(number);
  if (quarantined &&
      (copying || connection->lock.held() || connection->lock.device_writes())) {  // mutation: lost-grants, lost-grants-gpu
    ended_.add(connection->protocol.facts(), std::move(connection->lock), std::move(connection->pidfd));
  } else {
    store_.release_quarantine(number);
  }
}

void SessionTable::drain_events(session::Connection& connection) {
  const std::vector<std::uint32_t>& handles = connection.protocol.namespaces();
  if (handles.empty()) return;
  const store::NamespaceSpec& spec = store_.namespaces().at(handles.back()).spec;
  connection.events.drain(connection.memory.region(),
                          {store_, stats_, session::model_row(stats_, spec.model), spec.chunk_tokens, reuse_tracker_, handles});
}

}  // namespace larder::loop

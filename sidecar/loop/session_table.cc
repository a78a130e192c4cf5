#include "sidecar/loop/session_table.h"

#include <array>
#include <string>

#include "shim/protocol/transfer_messages.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/loop/wakeups.h"
#include "sidecar/session/session_name.h"

namespace larder::loop {
namespace {
// An engine that floods its socket gets one turn like the others. The level-triggered epoll reports
// the rest in the next turn.
constexpr int kMessagesPerTurn = 16;
}  // namespace

SessionTable::SessionTable(const Neighbours& neighbours)
    : parts_(neighbours.parts),
      store_(neighbours.services.store),
      stats_(neighbours.services.stats),
      clock_(neighbours.services.clock),
      reuse_tracker_(*neighbours.services.reuse_tracker),
      transfers_(neighbours.services.transfers),
      lower_tiers_(neighbours.lower_tiers),
      fences_(neighbours.fences),
      ended_(neighbours.ended),
      restart_(neighbours.restart),
      loop_stats_(neighbours.loop_stats) {}

void SessionTable::insert(std::unique_ptr<session::Connection> connection) {
  connections_.emplace(connection->protocol.facts().number, std::move(connection));
}

const session::Connection* SessionTable::find(std::uint32_t number) const {
  const auto found = connections_.find(number);
  return found == connections_.end() ? nullptr : found->second.get();
}

void SessionTable::receive(std::uint32_t number) {
  // A second bound, by work and not by number: 16 large messages could hold up all other engines.
  const std::uint64_t last_effort = store_.effort() + store::Store::kSliceEffort;
  for (int i = 0; i < kMessagesPerTurn && store_.effort() < last_effort; ++i) {
    const auto found = connections_.find(number);
    if (found == connections_.end() || found->second->protocol.busy())
      return;  // ended in this turn, or busy
    Result<protocol::Packet> packet = protocol::receive_packet(found->second->socket.get());
    if (!packet.ok()) {
      if (packet.status().code() == Code::kResourceExhausted) return;
      // A truncated or oversized packet, or too many descriptors: a fault of the engine, which gets
      // an ERROR.
      if (packet.status().code() == Code::kInvalidArgument) return fail(number, packet.status());
      // The socket has ended: no ERROR, since no one could read the text.
      return end(number, packet.status().text());
    }
    if (Status status = answer(*found->second, *packet); !status.ok()) return fail(number, status);
  }
}

Status SessionTable::answer(session::Connection& connection, protocol::Packet& packet) {
  const auto before = connection.protocol.state();
  // The engine's uses come before the message: a RESERVE must not evict a chunk that was just used.
  if (before == session::SessionProtocol::State::kAttached)
    drain_events(connection, session::EventReader::Unfinished::kWaits);
  Result<session::Reply> reply = connection.protocol.handle(packet.bytes, std::move(packet.fds));
  if (!reply.ok()) return reply.status();
  // A large request goes on in go_on(), one slice a turn. Later messages of the session wait in the
  // socket, in order.
  if (connection.protocol.busy()) busy_.push_back(connection.protocol.facts().number);
  if (connection.protocol.state() == session::SessionProtocol::State::kAttached &&
      before != session::SessionProtocol::State::kAttached) {
    attached(connection);
  }
  return deliver(connection, *std::move(reply));
}

// Acts on the result of a message: notes the namespace and sends the reply.
Status SessionTable::deliver(session::Connection& connection, session::Reply reply) {
  // Before the reply: once the engine has the reply it may store, and the next larderd must know
  // the namespace.
  if (reply.opened) restart_.note_namespace(*reply.opened);
  if (reply.packet.empty()) return {};
  if (reply.fence && lower_tiers_)
    return answer_fence(connection, std::move(reply));  // mutation: drop-fenced
  // Engines get descriptors and never paths, so an engine cannot open the files of another larderd
  // or user.
  const std::array<int, 5> fds{parts_.arena.to_engines.get(), parts_.index.read_only.get(),
                               connection.memory.fd.get(), connection.lock.fd(),
                               parts_.residency_filter ? parts_.residency_filter->fd() : -1};
  const std::size_t count = !reply.with_regions ? 0 : reply.with_residency ? 5 : 4;
  Status sent = send(connection, std::move(reply.packet), std::span(fds).first(count));
  if (reply.with_regions) connection.memory.fd.reset();  // both sides have the mapping
  return sent;
}

void SessionTable::attached(session::Connection& connection) {
  ++stats_.sessions_opened;
  loop_stats_.show_soon();
  connection.beat_ms = clock_.now_ms();
  connection.protocol.inquiry().restart(connection.beat_ms);
  if (connection.protocol.previous_session() != 0) take_over(connection.protocol);
}

// Ends the previous session of an engine that attached again, even if larderd has not seen the end.
void SessionTable::take_over(const session::SessionProtocol& session) {
  const std::uint32_t number = session.facts().number;
  for (const auto& [earlier, connection] : connections_) {
    if (earlier == number || connection->protocol.facts().token != session.previous_session() ||
        session.previous_epoch() != parts_.shape.epoch)
      continue;
    // The engine uses the new session from here on. larderd may not have seen the end of the old
    // socket yet.
    end(earlier, "its engine attached anew");
    break;
  }
  ended_.take_over(session);
}

// The reply means that earlier drops are done.
Status SessionTable::answer_fence(session::Connection& connection, session::Reply reply) {
  std::vector<tiering::PendingDrop> drops =
      lower_tiers_->drops_under_way(store_.namespaces().at(*reply.fence).spec.id);
  if (drops.empty()) return send(connection, std::move(reply.packet));
  return fences_.hold(connection.protocol.facts().number, std::move(reply.packet), std::move(drops),
                      clock_.now_ms());
}

bool SessionTable::go_on() {
  while (!busy_.empty()) {
    const std::uint32_t number = busy_.front();
    busy_.pop_front();
    const auto found = connections_.find(number);
    if (found == connections_.end()) continue;
    session::Connection& connection = *found->second;
    Result<session::Reply> reply = connection.protocol.go_on();
    // To the end of the line: sessions with large requests take turns.
    if (connection.protocol.busy()) busy_.push_back(number);
    if (Status sent = reply.ok() ? deliver(connection, *std::move(reply)) : reply.status();
        !sent.ok())
      fail(number, sent);
    return true;
  }
  return false;
}

bool SessionTable::busy(std::uint32_t number) const {
  const session::Connection* const connection = find(number);
  return connection != nullptr && connection->protocol.busy();
}

Status SessionTable::send(session::Connection& connection, std::vector<std::byte> packet,
                          std::span<const int> fds) {
  const bool waited = !connection.answers.empty();
  Status sent = connection.answers.send(connection.socket, std::move(packet), fds);
  if (!sent.ok() || waited || connection.answers.empty()) return sent;
  // Only with waiting replies: a socket with room is always writable, and the loop would spin.
  return watch_room(parts_.epoll, connection.socket,
                    {WakeupSource::kSocket, connection.protocol.facts().number}, true);
}

void SessionTable::answer_later(std::uint32_t session, std::vector<std::byte> packet) {
  const auto found = connections_.find(session);
  if (found == connections_.end()) return;
  if (Status sent = send(*found->second, std::move(packet)); !sent.ok()) fail(session, sent);
}

void SessionTable::send_transfer(const transfer::Answer& answer) {
  loop_stats_.show_soon();
  const auto found = connections_.find(answer.session);
  if (found == connections_.end()) return;
  if (answer.refusal.refused())
    base::log_from(session::log_source(found->second->protocol.facts().peer, "EXPORT"),
                   base::LogLevel::kWarning,
                   session::session_name(*found->second) + " copies by itself (" +
                       std::string(protocol::transfer_reason_name(answer.refusal.reason)) +
                       "): " + answer.refusal.text);
  else if (!answer.withdrawn)
    note_copies(*found->second);  // mutation: own-copy-noted
  const int region = answer.with_region ? transfers_->region_fd(answer.session) : -1;
  if (Status sent = send(*found->second, session::transfer_packet(answer),
                         {&region, answer.with_region ? 1U : 0U});
      !sent.ok())
    fail(answer.session, sent);
}

// Written before the first copy: after a kill of larderd its GPU may still copy into slots, and the
// next larderd must know.
void SessionTable::note_copies(const session::Connection& connection) {
  if (Status noted = connection.lock.note_sidecar_writes(); !noted.ok())
    loop_stats_.note_fallback(
        "restart",
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

// A malformed, unexpected, truncated or oversized packet ends its session with an ERROR that names
// the fault, a log line and a count. No other session notices.
void SessionTable::fail(std::uint32_t number, const Status& why) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  // Other codes (kUnavailable, kDeadlineExceeded) are no fault of the engine and do not count as
  // protocol errors.
  const bool malformed = why.code() == Code::kInvalidArgument ||
                         why.code() == Code::kFailedPrecondition ||
                         why.code() == Code::kOutOfRange || why.code() == Code::kUnsupported;
  if (malformed) ++stats_.protocol_errors;
  // A session without a log line so far counts as refused. The source is the user and not the
  // process: a client that keeps connecting may use a new process each time.
  const bool notify = malformed || (!found->second->protocol.attach_logged() &&
                                    why.code() == Code::kResourceExhausted);
  // Only a session that was never served means an engine without a cache. No engine sends a message
  // that ends with one of the two codes.
  if (notify && !found->second->protocol.attach_logged() && why.code() != Code::kInvalidArgument &&
      why.code() != Code::kFailedPrecondition)
    loop_stats_.note_refused(why.text(), clock_.now_ms());
  if (notify)
    base::log_refusal(found->second->protocol.facts().peer.user, why.to_string(),
                      base::LogLevel::kWarning,
                      session::session_name(*found->second) + " is ended: " + why.to_string());
  // Best effort: the closed socket tells an engine that does not read.
  [[maybe_unused]] const Status sent =
      protocol::send_packet(found->second->socket.get(), session::error_packet(why));
  end(number, notify ? "" : why.text());
}

// release() frees the grants now, without waiting for the next tick.
void SessionTable::process_ended(std::uint32_t number) {
  end(number, "its process ended");
  if (ended_.forget_pidfd(number)) ended_.release();
}

void SessionTable::end(std::uint32_t number, const std::string& why) {
  const auto found = connections_.find(number);
  if (found == connections_.end()) return;
  // Out of the table first: the calls below may look sessions up, and must not find this one.
  const std::unique_ptr<session::Connection> connection = std::move(found->second);
  connections_.erase(found);
  if (connection->protocol.state() != session::SessionProtocol::State::kAttached) {
    base::log_debug(session::session_name(*connection) + " ended before the attachment: " + why);
    return;
  }
  if (!connection->protocol.attach_logged())
    base::log_debug(session::session_name(*connection) +
                    " ended before its first namespace: " + why);
  ++stats_.sessions_ended;
  loop_stats_.show_soon();
  if (lower_tiers_) lower_tiers_->end_session(number);
  if (transfers_) transfers_->end_session(number);
  // The last events are in shared memory and outlive the engine, which may have died in the middle
  // of one.
  drain_events(*connection, session::EventReader::Unfinished::kLost);
  connection->protocol.leave_namespaces();
  ended_.await_again(connection->protocol);  // mutation: lost-again-awaited
  // No return from here to ended_.add(): the lock must be kept before a slot can be freed.
  const std::uint32_t grants = store_.sessions().grants_of(number);
  const bool quarantined = store_.sessions().end(number);
  const std::string set_aside =
      grants == 0 ? "" : ", " + std::to_string(grants) + " grants quarantined";
  if (connection->protocol.attach_logged() && (!why.empty() || grants != 0))
    base::log_from(session::log_source(connection->protocol.facts().peer, "ended"),
                   base::LogLevel::kInfo,
                   session::session_name(*connection) + " ended" + (why.empty() ? "" : ": " + why) +
                       set_aside);
  const bool copying = transfers_ && transfers_->busy(number);
  if (quarantined &&
      (copying || connection->lock.held() ||
       connection->lock.device_writes())) {  // mutation: lost-grants, lost-grants-gpu
    ended_.add(connection->protocol.facts(), std::move(connection->lock),
               std::move(connection->pidfd));
  } else {
    store_.sessions().release_quarantine(number);
  }
}

}  // namespace larder::loop

// The sessions at each tick: events, heartbeats and overdue grants.
#include "sidecar/base/log_throttle.h"
#include "sidecar/loop/event_loop.h"
#include "sidecar/session/session_name.h"

namespace larder::loop {
namespace {
constexpr std::uint64_t kTellMs = 1000;  // a session without a namespace gets its log line after this time
}  // namespace

void EventLoop::check_session(session::Connection& connection, std::uint64_t now_ms, bool slept) {
  const std::uint32_t number = connection.protocol.facts().number;
  if (slept) connection.connected_ms = connection.beat_ms = now_ms;  // mutation: sleep-blameless
  if (connection.protocol.state() != session::SessionProtocol::State::kAttached) {
    if (now_ms - connection.connected_ms > protocol::kHandshakeTimeoutMs)
      sessions_.fail(number, {Code::kDeadlineExceeded,
                              "the handshake was not finished in " + std::to_string(protocol::kHandshakeTimeoutMs) + " ms"});
    return;
  }
  if (now_ms - connection.connected_ms > kTellMs) connection.protocol.tell_attached();
  sessions_.drain_events(connection);
  check_heartbeat(connection, now_ms);
  ask_about_grants(connection, now_ms, slept);
}

void EventLoop::check_heartbeat(session::Connection& connection, std::uint64_t now_ms) {
  const std::uint32_t number = connection.protocol.facts().number;
  const std::uint64_t beat = connection.memory.region().heartbeat.load(std::memory_order_acquire);
  if (beat != connection.beat) {
    connection.beat = beat;
    connection.beat_ms = now_ms;
  }
  const bool silent = now_ms - connection.beat_ms > protocol::kHeartbeatTimeoutMs;
  if (silent == connection.silent) return;
  connection.silent = silent;
  store_.set_silent(number, silent);
  stats_.heartbeats_missed += silent;
  base::log_from(session::log_source(connection.protocol.facts().peer, silent ? "silent" : "back"), base::LogLevel::kWarning,
                 "session " + std::to_string(number) +
                     (silent ? " is silent: its holds do not count, its grants are quarantined" : " is back"));
}

void EventLoop::ask_about_grants(session::Connection& connection, std::uint64_t now_ms, bool slept) {
  const std::uint32_t number = connection.protocol.facts().number;
  session::GrantInquiry& inquiry = connection.protocol.inquiry();
  if (slept || connection.silent) inquiry.restart(now_ms);
  for (std::vector<std::byte>& packet : inquiry.tick(number, store_, stats_, now_ms, grant_ages_))
    if (Status sent = sessions_.send(connection, std::move(packet)); !sent.ok()) return sessions_.end(number, sent.text());
}

}  // namespace larder::loop

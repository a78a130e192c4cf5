// SessionTable: the part that is done at each tick and at the stop.
#include "shim/base/test_point.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/loop/session_table.h"
#include "sidecar/session/session_name.h"

namespace larder::loop {
namespace {
constexpr std::uint64_t kTellMs =
    1000;                       // a session without a namespace gets its log line after this time
constexpr int kLastTurns = 64;  // a stop handles messages for so many turns
constexpr std::uint64_t kLastMs = 2000;  // and messages of many slices for so long
}  // namespace

void SessionTable::tick(std::uint64_t now_ms, bool slept) {
  if (slept) grant_ages_.restart();
  grant_ages_.tick(now_ms, store_.last_generation());
  for (auto next = connections_.begin(); next != connections_.end();) {
    session::Connection& connection = *(next++)->second;  // check_session() may end the session
    check_session(connection, now_ms, slept);
  }
}

void SessionTable::check_session(session::Connection& connection, std::uint64_t now_ms,
                                 bool slept) {
  const std::uint32_t number = connection.protocol.facts().number;
  if (slept) connection.connected_ms = connection.beat_ms = now_ms;  // mutation: sleep-blameless
  if (connection.protocol.state() != session::SessionProtocol::State::kAttached) {
    // A client that connects and says nothing would otherwise keep one of kMaxSessions places.
    if (now_ms - connection.connected_ms > protocol::kHandshakeTimeoutMs)
      fail(number,
           {Code::kDeadlineExceeded, "the handshake was not finished in " +
                                         std::to_string(protocol::kHandshakeTimeoutMs) + " ms"});
    return;
  }
  if (now_ms - connection.connected_ms > kTellMs) connection.protocol.tell_attached();
  drain_events(connection, session::EventReader::Unfinished::kOneTick);
  check_heartbeat(connection, now_ms);
  ask_about_grants(connection, now_ms, slept);
}

void SessionTable::check_heartbeat(session::Connection& connection, std::uint64_t now_ms) {
  const std::uint32_t number = connection.protocol.facts().number;
  // The engine counts up, and larderd takes the time of each change by its own clock: the clocks
  // need not agree.
  const std::uint64_t beat = connection.memory.region().heartbeat.load(std::memory_order_acquire);
  if (beat != connection.beat) {
    connection.beat = beat;
    connection.beat_ms = now_ms;
  }
  const bool silent = now_ms - connection.beat_ms > protocol::kHeartbeatTimeoutMs;
  if (silent == connection.silent) return;
  // Silence is no end: a debugger or a long garbage collection may stop an engine for longer. Its
  // holds stop to count, and its grants are quarantined.
  connection.silent = silent;
  store_.sessions().set_silent(number, silent);
  stats_.heartbeats_missed += silent;
  base::log_from(
      session::log_source(connection.protocol.facts().peer, silent ? "silent" : "back"),
      base::LogLevel::kWarning,
      "session " + std::to_string(number) +
          (silent ? " is silent: its holds do not count, its grants are quarantined" : " is back"));
}

void SessionTable::ask_about_grants(session::Connection& connection, std::uint64_t now_ms,
                                    bool slept) {
  const std::uint32_t number = connection.protocol.facts().number;
  session::GrantInquiry& inquiry = connection.protocol.inquiry();
  // A silent engine cannot answer, and its grants are quarantined already.
  if (slept || connection.silent) inquiry.restart(now_ms);
  for (std::vector<std::byte>& packet : inquiry.tick(number, store_, stats_, now_ms, grant_ages_))
    if (Status sent = send(connection, std::move(packet)); !sent.ok())
      return end(number, sent.text());
}

void SessionTable::drain_events(session::Connection& connection,
                                session::EventReader::Unfinished unfinished) {
  const std::vector<std::uint32_t>& handles = connection.protocol.namespaces();
  if (handles.empty()) return;
  // The newest namespace names the model. An engine serves one model, with adapters in further
  // namespaces.
  const store::NamespaceSpec& spec = store_.namespaces().at(handles.back()).spec;
  connection.events.drain(connection.memory.region(),
                          {store_, stats_, session::model_row(stats_, spec.model),
                           spec.chunk_tokens, reuse_tracker_, handles},
                          unfinished);
}

void SessionTable::goodbye() {
  LARDER_POINT(stopping);
  const Status why(Code::kUnavailable, "larderd is stopping");
  // Without keep_on_exit the memory goes away: engines hear at once, and no further message of
  // theirs counts.
  while (!parts_.config.memory.keep_on_exit && !connections_.empty())
    fail(connections_.begin()->first, why);
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, connection] : connections_) numbers.push_back(number);
  const std::uint64_t end_ms = clock_.now_ms() + kLastMs;
  for (int i = 0; i < kLastTurns; ++i) {
    // Commits that engines sent before the stop are still handled, so their chunks are there after
    // the restart.
    for (const std::uint32_t number : numbers) receive(number);
    while (clock_.now_ms() < end_ms && go_on()) {
    }
  }
  for (const std::uint32_t number : numbers) {
    const auto found = connections_.find(number);
    if (found == connections_.end()) continue;
    [[maybe_unused]] const Status sent =
        protocol::send_packet(found->second->socket.get(), session::error_packet(why));
  }
}

void SessionTable::keep_locks() {
  for (auto& [number, connection] : connections_) {
    // The next larderd reads these lock files. A held lock means an engine that may still write
    // into its slots.
    const bool attached =
        connection->protocol.state() == session::SessionProtocol::State::kAttached;
    // A GPU may still write after the end of its process.
    connection->lock.set_kept(
        (attached && connection->lock.held()) ||  // mutation: restart-locks-kept
        connection->lock.device_writes());
  }
}

}  // namespace larder::loop

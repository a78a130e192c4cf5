// The tick of the loop: heartbeats, ages and deadlines, and the snapshot for other threads.
#include <algorithm>

#include "shim/protocol/copy_strategy.h"
#include "shim/protocol/transfer_messages.h"
#include "sidecar/base/log_drain.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/base/sizes.h"
#include "sidecar/loop/event_loop.h"
#include "sidecar/session/session_name.h"

namespace larder::loop {
namespace {
constexpr std::uint64_t kAsleepMs = 1000;   // a later tick means that larderd was stopped: clocks of engines restart
constexpr std::uint64_t kTellMs = 1000;     // a session without a namespace gets its log line after this time
constexpr std::uint64_t kHealthyMs = 2000;  // a loop without a turn for longer is unhealthy
}  // namespace

void EventLoop::tick() {
  const std::uint64_t now_ms = clock_.now_ms();
  const bool slept = now_ms - ticked_ms_ > kAsleepMs;
  ticked_ms_ = now_ms;
  base::tell_left_out();
  if (slept)
    base::log_from("stopped", base::LogLevel::kWarning, "larderd was stopped for a while: heartbeats and ages count anew");
  if (slept) grant_ages_.restart();
  grant_ages_.tick(now_ms, store_.last_generation());
  store_.note_time(now_ms);
  reuse_tracker_.tick(now_ms);
  for (auto next = connections_.begin(); next != connections_.end();) {
    session::Connection& connection = *(next++)->second;  // check_session() may end the session
    check_session(connection, now_ms, slept);
  }
  if (!accepting_) accepting_ = watch(parts_.epoll, parts_.listener, {WakeupSource::kListener}).ok();
  release_ended();
  check_settled(now_ms, slept);
  store_.sessions().watch_holds(now_ms, slept);
  store_.sweep();
  if (lower_tiers_) lower_tiers_->tick(slept);
  if (transfers_) transfers_->present(prefaulter_.touched_bytes());
  publish();
}

void EventLoop::check_session(session::Connection& connection, std::uint64_t now_ms, bool slept) {
  const std::uint32_t number = connection.protocol.facts().number;
  if (slept) connection.connected_ms = connection.beat_ms = now_ms;  // mutation: sleep-blameless
  if (connection.protocol.state() != session::SessionProtocol::State::kAttached) {
    if (now_ms - connection.connected_ms > protocol::kHandshakeTimeoutMs)
      fail_session(number, {Code::kDeadlineExceeded,
                            "the handshake was not finished in " + std::to_string(protocol::kHandshakeTimeoutMs) + " ms"});
    return;
  }
  if (now_ms - connection.connected_ms > kTellMs) connection.protocol.tell_attached();
  drain_events(connection);
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
  store_.sessions().set_silent(number, silent);
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
    if (Status sent = send(connection, std::move(packet)); !sent.ok()) return end_session(number, sent.text());
}

void EventLoop::drain_events(session::Connection& connection) {
  const std::vector<std::uint32_t>& handles = connection.protocol.namespaces();
  if (handles.empty()) return;
  const store::NamespaceSpec& spec = store_.namespaces().at(handles.back()).spec;
  connection.events.drain(connection.memory.region(),
                          {store_, stats_, session::model_row(stats_, spec.model), spec.chunk_tokens, reuse_tracker_, handles});
}

void EventLoop::note_fallback(const std::string& what, const std::string& why) {
  for (const auto& [known, reason] : stats_.fallbacks)
    if (known == what) return;
  stats_.fallbacks.emplace_back(what, why);
  base::log_warning(what + ": " + why);
}

// Adds to the last session which process copies for it. One fallback line covers all sessions for
// which larderd should copy and does not.
void EventLoop::show_way(stats::Stats& view, const std::string& name) const {
  stats::SessionStats& session = view.sessions.back();
  const transfer::Way way = transfers_->way(session.number);
  session.sidecar_copies = way.sidecar;
  if (!way.refusal.refused()) return;
  session.transfer_reason = protocol::transfer_reason_name(way.refusal.reason);
  session.transfer_why = way.refusal.text;
  if (way.refusal.reason == protocol::TransferReason::kHostMemory) return;  // no remedy exists
  const auto noted = [](const auto& fallback) { return fallback.first == "transfer"; };
  if (std::ranges::none_of(view.fallbacks, noted))
    view.fallbacks.emplace_back("transfer",
                                name + " copies by itself (" + session.transfer_reason + "): " + session.transfer_why);
}

// Copies the engine's own statements into the status. larderd bases no decision on them.
void EventLoop::show_gpu(stats::Stats& view, const protocol::SessionRegion& region) {
  stats::SessionStats& session = view.sessions.back();
  session.copies_by = protocol::CopyStrategy::unpacked(region.copy_strategy.load(std::memory_order_relaxed)).in_words();
  session.registered_bytes = std::min(region.registered_bytes.load(std::memory_order_relaxed), view.arena_bytes);
}

void EventLoop::publish() {
  shows_now_ = false;
  stats::Stats view = stats_;
  view.uptime_ms = clock_.now_ms() - started_ms_;
  view.touched_bytes = prefaulter_.touched_bytes();
  view.log_lines_dropped = base::dropped_log_lines();
  if (const int problem = prefaulter_.problem(); problem != 0)
    view.fallbacks.emplace_back("memory", base::mib(view.touched_bytes) + " of " + base::mib(view.arena_bytes) + ": " +
                                              std::generic_category().message(problem));
  if (lower_tiers_) lower_tiers_->fill(view);
  refused_.fill(view, clock_.now_ms());
  store_.fill(view);
  reuse_tracker_.fill(view.estimate);
  for (const auto& [number, connection] : connections_) {
    if (connection->protocol.state() != session::SessionProtocol::State::kAttached) continue;
    const std::vector<std::uint32_t>& handles = connection->protocol.namespaces();
    const store::SessionUse use = store_.sessions().use_of(number);
    view.sessions.push_back({number, connection->protocol.engine(),
                             handles.empty() ? "" : store_.namespaces().at(handles.back()).spec.id.to_hex(), connection->silent,
                             use.holds, use.grants, use.held_bytes, use.granted_bytes, false, "", ""});
    show_gpu(view, connection->memory.region());
    if (transfers_) show_way(view, session::session_name(*connection));
  }
  if (transfers_) {
    const transfer::Counts counts = transfers_->counts();
    view.transfer = {counts.stores, counts.loads, counts.failed, counts.bytes, counts.opened, counts.open};
  }
  const std::lock_guard lock(snapshot_mutex_);
  snapshot_ = std::move(view);
}

stats::Stats EventLoop::snapshot() const {
  const std::lock_guard lock(snapshot_mutex_);
  return snapshot_;
}

bool EventLoop::healthy() const {
  return running_ && clock_.now_ms() - turned_ms_ <= kHealthyMs;
}

}  // namespace larder::loop

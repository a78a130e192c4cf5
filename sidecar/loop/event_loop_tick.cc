// The tick of the loop: heartbeats, ages and deadlines, and the snapshot for other threads.
#include <algorithm>

#include "sidecar/base/log_throttle.h"
#include "sidecar/base/sizes.h"
#include "sidecar/loop/event_loop.h"
#include "sidecar/loop/session_view.h"
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
  ended_.release();
  restart_.check_settled(now_ms, slept);
  store_.watch_holds(now_ms, slept);
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

void EventLoop::publish() {
  stats::Stats view = loop_stats_.begin_view(clock_.now_ms());
  view.touched_bytes = prefaulter_.touched_bytes();
  if (const int problem = prefaulter_.problem(); problem != 0)
    view.fallbacks.emplace_back("memory", base::mib(view.touched_bytes) + " of " + base::mib(view.arena_bytes) + ": " +
                                              std::generic_category().message(problem));
  if (lower_tiers_) lower_tiers_->fill(view);
  loop_stats_.fill_refused(view, clock_.now_ms());
  store_.fill(view);
  reuse_tracker_.fill(view.estimate);
  sessions_.each(
      [this, &view](const session::Connection& connection) { show_session(view, connection, store_, transfers_.get()); });
  if (transfers_) {
    const transfer::Counts counts = transfers_->counts();
    view.transfer = {counts.stores, counts.loads, counts.failed, counts.bytes, counts.opened, counts.open};
  }
  loop_stats_.publish(std::move(view));
}

bool EventLoop::healthy() const {
  return running_ && clock_.now_ms() - turned_ms_ <= kHealthyMs;
}

}  // namespace larder::loop

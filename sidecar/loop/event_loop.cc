#include "sidecar/loop/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>

#include "sidecar/base/log_throttle.h"
#include "sidecar/base/sizes.h"
#include "sidecar/loop/session_view.h"

namespace larder::loop {
namespace {

constexpr int kEventsPerTurn = 64;
// A later tick means that larderd was stopped: clocks of engines restart.
constexpr std::uint64_t kAsleepMs = 1000;
constexpr std::uint64_t kHealthyMs = 2000;  // a loop without a turn for longer is unhealthy
// For pending writes to lower tiers: a pod has 30 s until SIGKILL.
constexpr std::uint64_t kStopMs = 20'000;

// The present bytes of the arena, as the previous instance noted in its index.
std::uint64_t present_bytes(const memory::PreviousInstance& earlier) {
  return earlier.index ? std::min(earlier.index->touched_bytes(), earlier.arena->bytes) : 0;
}

session::SessionServices services_of(store::Store& store, stats::Stats& stats,
                                     const base::Clock& clock, tiering::LowerTiers* lower_tiers,
                                     session::ReuseTracker& reuse_tracker,
                                     transfer::Transfers* transfers) {
  return {.store = store,
          .stats = stats,
          .clock = clock,
          .promoter = lower_tiers == nullptr ? nullptr : &lower_tiers->promotions(),
          .tier_probes = lower_tiers == nullptr ? nullptr : lower_tiers->probes(),
          .reuse_tracker = &reuse_tracker,
          .transfers = transfers};
}

std::unique_ptr<tiering::LowerTiers> make_lower_tiers(LoopParts& parts, store::Store& store,
                                                      stats::Stats& stats,
                                                      const base::Clock& clock) {
  if (parts.tiers.empty()) return nullptr;
  const std::span<std::byte> arena(parts.arena.mapping.data(), parts.arena.mapping.size());
  return std::make_unique<tiering::LowerTiers>(std::move(parts.tiers), parts.config, store, stats,
                                               clock, arena);
}

std::unique_ptr<tiering::PeerHolds> make_peer_holds(LoopParts& parts, store::Store& store) {
  if (!parts.peer_server) return nullptr;
  return std::make_unique<tiering::PeerHolds>(std::move(parts.peer_server), store,
                                              parts.arena.mapping.size());
}

std::unique_ptr<transfer::Transfers> make_transfers(LoopParts& parts) {
  if (parts.config.transfer != config::Transfer::kSidecar) return nullptr;
  const std::span<std::byte> arena(parts.arena.mapping.data(), parts.arena.mapping.size());
  return std::make_unique<transfer::Transfers>(
      copy::cuda_importer(), arena, [&parts] { signal_wake(parts.wake); }, parts.arena.fd.get());
}

}  // namespace

EventLoop::EventLoop(LoopParts parts, const base::Clock& clock)
    : parts_(std::move(parts)),
      clock_(clock),
      loop_stats_(parts_.config.pool, parts_.shape.epoch, parts_.arena, clock.now_ms()),
      store_(parts_.shape, parts_.index.mapping.data(), parts_.arena.mapping.data(), stats_),
      reuse_tracker_(parts_.arena.mapping.size(), store_.namespaces()),
      // The parts below are members by value. A part refers only to members that event_loop.h
      // declares before it, so destruction in reverse order is safe.
      lower_tiers_(make_lower_tiers(parts_, store_, stats_, clock_)),
      peer_holds_(make_peer_holds(parts_, store_)),
      transfers_(make_transfers(parts_)),
      ended_(store_, transfers_.get(), loop_stats_, clock_),
      restart_(parts_, store_, ended_, loop_stats_, clock_),
      services_(services_of(store_, stats_, clock_, lower_tiers_.get(), reuse_tracker_,
                            transfers_.get())),
      sessions_({parts_, services_, lower_tiers_.get(), fences_, ended_, restart_, loop_stats_}),
      acceptor_(parts_, services_, sessions_, ended_, loop_stats_),
      admin_(store_, reuse_tracker_, lower_tiers_.get(), loop_stats_, clock_,
             [this] { signal_wake(parts_.wake); }),
      ticked_ms_(loop_stats_.started_ms()),
      turned_ms_(loop_stats_.started_ms()),
      prefaulter_({parts_.arena.mapping.data(), parts_.arena.mapping.size()},
                  parts_.arena.page_bytes, present_bytes(parts_.earlier)) {
  store_.set_keep_percent(parts_.config.memory.keep_percent);
  if (parts_.earlier.index)
    acceptor_.continue_from(restart_.restore(prefaulter_.touched_bytes()) + 1);
  running_ = true;
  publish();
}

EventLoop::~EventLoop() {
  running_ = false;
  admin_.close();
  // First the socket: an engine that connects now would wait in a backlog that no loop reads.
  ::unlink(parts_.config.socket.c_str());
  // A clean stop leaves the same files as a kill, so an update stays warm and both ways use one
  // code path. Test: tests/unit/loop/restart_test.cc.
  if (parts_.config.memory.keep_on_exit || !restart_.published()) {
    leave_files();
  } else {
    restart_.remove();
  }
}

Status EventLoop::run() {
  base::log_info("larderd " + stats_.version + " pool " + stats_.pool + ": engines attach at " +
                 parts_.config.socket + ", " + base::mib(parts_.arena.mapping.size()) + " in " +
                 parts_.arena.path);
  Status status;
  while (status.ok() && !stopping_) status = turn();
  // The order of the end: no admin verb waits for a dead loop, then peers, then engines. The lower
  // tiers come last and take the last stores of the engines.
  running_ = false;
  admin_.close();
  if (peer_holds_) peer_holds_->stop();
  sessions_.goodbye();
  write_rest();
  publish();
  return status;
}

void EventLoop::stop() {
  stopping_ = true;
  signal_wake(parts_.wake);
}

Status EventLoop::turn() {
  std::array<epoll_event, kEventsPerTurn> events{};
  // With work to do the wait is 0; else the timer bounds the wait.
  const bool more = work();
  answer_fetches();
  answer_fences();
  answer_transfers();
  // A session came or went: tests and `larderctl status` see the change before the next tick.
  if (loop_stats_.due()) publish();
  const int count =
      ::epoll_wait(parts_.epoll.get(), events.data(), kEventsPerTurn, more ? 0 : wait_ms());
  if (count < 0 && errno != EINTR) return Status::from_errno(errno, "epoll_wait");
  // Behind epoll_wait(), for healthy(): a loop that hangs in one turn stops this clock.
  turned_ms_.store(clock_.now_ms());
  // Before any message of this turn: larderd grants only slots with present pages. No engine then
  // takes a page fault, or dies of SIGBUS, in the arena.
  store_.set_touched_bytes(prefaulter_.touched_bytes());
  for (int i = 0; i < count; ++i)
    handle(Wakeup::unpack(events[static_cast<std::size_t>(i)].data.u64));
  return {};
}

// One slice of each kind of work that takes longer than a turn. False if there was no work.
bool EventLoop::work() {
  // No short circuit: each kind of work gets one slice a turn, so none starves another.
  const bool verified = store_.verify_next();
  const bool asked = admin_.go_on();
  const bool promoted = lower_tiers_ && lower_tiers_->go_on();
  const bool served = peer_holds_ && peer_holds_->go_on();
  return sessions_.go_on() || verified || asked || promoted || served;
}

// The time until the deadline of a fetch or a probe; -1 to wait for the timer.
int EventLoop::wait_ms() const {
  const std::uint64_t deadline_ns = lower_tiers_ ? lower_tiers_->next_deadline_ns() : UINT64_MAX;
  if (deadline_ns == UINT64_MAX) return -1;
  const std::uint64_t now_ns = clock_.now_ns();
  // Rounded up: epoll_wait() would otherwise wake a moment early, and the loop would spin until the
  // deadline.
  return deadline_ns <= now_ns ? 0 : static_cast<int>((deadline_ns - now_ns + 999'999) / 1'000'000);
}

void EventLoop::answer_fetches() {
  if (!lower_tiers_) return;
  lower_tiers_->miss_deadlines();
  for (const tiering::Promoter::Answer& answer : lower_tiers_->promotions().take_answers())
    sessions_.answer_later(answer.session, session::fetched_packet(answer));
  if (lower_tiers_->probes() == nullptr) return;
  for (const tiering::TierProbes::Answer& answer : lower_tiers_->probes()->take_answers())
    sessions_.answer_later(answer.session, session::probed_packet(answer));
}

void EventLoop::answer_transfers() {
  if (!transfers_) return;
  if (transfers_->take_freed()) ended_.release();
  for (const transfer::Answer& answer : transfers_->take_answers()) sessions_.send_transfer(answer);
}

void EventLoop::answer_fences() {
  for (FenceQueue::Answer& answer : fences_.take_done(clock_.now_ms()))
    sessions_.answer_later(answer.session, std::move(answer.packet));
}

void EventLoop::handle(const Wakeup& wakeup) {
  switch (wakeup.source) {
    case WakeupSource::kListener: acceptor_.accept_all(); return;
    case WakeupSource::kSocket:
      // The event may mean room in the socket as well as messages. Both are tried, and a call
      // without effect is cheap.
      sessions_.flush(wakeup.session);
      sessions_.receive(wakeup.session);
      return;
    case WakeupSource::kTimer:
      clear_wake(parts_.timer);
      tick();
      return;
    case WakeupSource::kControl:
      // work() finds the reason.
      clear_wake(parts_.wake);
      return;
    case WakeupSource::kTier: lower_tiers_->deliver(wakeup.session); return;
    case WakeupSource::kPeers: peer_holds_->deliver(); return;
    // The end of the socket or the pidfd shows the death of an engine. larderd uses no process
    // number, because engines run in other PID namespaces.
    case WakeupSource::kPidfd:
      // The messages that the engine sent before its death.
      sessions_.receive(wakeup.session);
      // A busy session ends later: the pidfd stays readable.
      if (!sessions_.busy(wakeup.session))
        sessions_.process_ended(wakeup.session);  // mutation: death-ends-session
      return;
  }
}

void EventLoop::tick() {
  const std::uint64_t now_ms = clock_.now_ms();
  // SIGSTOP, a frozen cgroup or a suspended VM: after the pause every engine would look silent.
  const bool slept = now_ms - ticked_ms_ > kAsleepMs;
  ticked_ms_ = now_ms;
  base::tell_left_out();
  if (slept)
    base::log_from("stopped", base::LogLevel::kWarning,
                   "larderd was stopped for a while: heartbeats and ages count anew");
  store_.note_time(now_ms);
  // Before the sessions: their events count for the budget of this tick.
  reuse_tracker_.tick(now_ms);
  sessions_.tick(now_ms, slept);
  // After the sessions: an end of a session may have freed the descriptors that accept() lacked.
  acceptor_.resume();
  ended_.release();
  restart_.check_recovery_grace(now_ms, slept);
  store_.sessions().watch_holds(now_ms, slept);
  store_.sweep();
  if (lower_tiers_) lower_tiers_->tick(slept);
  if (transfers_) transfers_->present(prefaulter_.touched_bytes());
  publish();
}

void EventLoop::publish() {
  // Other threads see only this copy, the admin queue and atomics. The thread of the loop owns the
  // rest, so no lock is held during work.
  stats::Stats view = loop_stats_.begin_view(clock_.now_ms());
  view.touched_bytes = prefaulter_.touched_bytes();
  if (const int problem = prefaulter_.problem(); problem != 0)
    view.fallbacks.push_back({"memory", base::mib(view.touched_bytes) + " of " +
                                            base::mib(view.arena_bytes) + ": " +
                                            std::generic_category().message(problem)});
  if (lower_tiers_) lower_tiers_->fill(view);
  if (peer_holds_) peer_holds_->fill(view);
  loop_stats_.fill_refused(view, clock_.now_ms());
  store_.fill(view);
  reuse_tracker_.fill(view.estimate);
  sessions_.each([this, &view](const session::Connection& connection) {
    show_session(view, connection, store_, transfers_.get());
  });
  if (transfers_) {
    const transfer::Counts counts = transfers_->counts();
    view.transfer = {counts.stores, counts.loads,  counts.failed,
                     counts.bytes,  counts.opened, counts.open};
  }
  loop_stats_.publish(std::move(view));
}

bool EventLoop::healthy() const {
  // Called by HTTP threads and by the supervisor's probe: reads atomics only, since a hung loop
  // could hold a lock.
  return running_ && clock_.now_ms() - turned_ms_ <= kHealthyMs;
}

// Writes the chunks that the write policies promised to the lower tiers. The listening socket
// closes first, so that engines cannot attach to a stopping larderd.
void EventLoop::write_rest() {
  if (!lower_tiers_) return;
  parts_.listener.reset();
  lower_tiers_->finish(clock_.now_ns() + kStopMs * 1'000'000);
}

// Leaves for the next start: the arena, the index, and the lock files of engines that may still
// read or write.
void EventLoop::leave_files() {
  sessions_.keep_locks();
  ended_.keep_locks();
  restart_.leave();
}

}  // namespace larder::loop

#include "operator/k8s/write_guard.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

#include "sidecar/base/log_throttle.h"

namespace larder::k8s {
namespace {

// State of the handler's thread. Trivial, so that the state exists before any signal.
constinit thread_local std::atomic<const GuardedSockets*> guarded{nullptr};
constinit thread_local std::atomic<bool> ended{false};

// Runs in a signal handler: only async-signal-safe calls, and errno as before. shutdown() is on
// POSIX's list.
void on_end(int) {
  const int error = errno;
  ended = true;
  if (const GuardedSockets* sockets = guarded; sockets != nullptr) sockets->shut_down();
  errno = error;
}

// In glibc SIGRTMIN is a function call, so the number is no constant.
int end_signal() {
  return SIGRTMIN + 4;
}

// The timer of a thread, created at its first request and deleted with the thread.
class ThreadTimer {
 public:
  ThreadTimer() {
    static const bool installed = [] {
      struct sigaction action {};
      action.sa_handler = &on_end;
      // A signal in the middle of another read must not make that read fail.
      action.sa_flags = SA_RESTART;
      return ::sigaction(end_signal(), &action, nullptr) == 0;
    }();
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = end_signal();
    event._sigev_un._tid = ::gettid();
    // CLOCK_BOOTTIME runs during a suspend: after a resume, the timer has fired before the thread
    // sends a byte.
    made_ = installed && ::timer_create(CLOCK_BOOTTIME, &event, &timer_) == 0;
    if (!made_)  // throttled, since every leading thread comes here
      base::log_refusal(
          "fenced writes", "no timer", base::LogLevel::kWarning,
          "no timer for fenced writes (timer_create): the lease is asked before each send alone");
  }
  ~ThreadTimer() {
    if (made_) ::timer_delete(timer_);
  }
  ThreadTimer(const ThreadTimer&) = delete;
  ThreadTimer& operator=(const ThreadTimer&) = delete;

  // Fires at a time of CLOCK_BOOTTIME; all zero: never.
  void set(timespec at) {
    const itimerspec when{{}, at};
    if (made_) ::timer_settime(timer_, TIMER_ABSTIME, &when, nullptr);
  }

 private:
  timer_t timer_{};
  bool made_ = false;
};

ThreadTimer& thread_timer() {
  thread_local ThreadTimer timer;
  return timer;
}

}  // namespace

// Lock-free, since the handler may run between any two instructions of this thread.
void GuardedSockets::add(int socket) {
  for (std::atomic<int>& place : sockets_) {
    int none = -1;
    if (place.compare_exchange_strong(none, socket)) return;
  }
}

// The place is free before close(): a reused number of another thread's socket must not be shut
// down.
void GuardedSockets::remove(int socket) {
  for (std::atomic<int>& place : sockets_) {
    int found = socket;
    if (place.compare_exchange_strong(found, -1)) return;
  }
}

void GuardedSockets::shut_down() const {
  for (const std::atomic<int>& place : sockets_)
    if (const int socket = place; socket >= 0) ::shutdown(socket, SHUT_RDWR);
}

WriteGuard::WriteGuard(const Fence& fence, const GuardedSockets& sockets) : fence_(fence) {
  ended = false;
  guarded = &sockets;
  // Order matters: a stop between the two reads makes the end earlier, never later.
  timespec at{};
  ::clock_gettime(CLOCK_BOOTTIME, &at);
  const std::uint64_t left_ms = fence.left_ms();
  constexpr long kNanos = 1'000'000'000;
  at.tv_sec += static_cast<time_t>(left_ms / 1000);
  at.tv_nsec += static_cast<long>(left_ms % 1000) * 1'000'000;
  if (at.tv_nsec >= kNanos) {
    at.tv_nsec -= kNanos;
    ++at.tv_sec;
  }
  thread_timer().set(at);
}

WriteGuard::~WriteGuard() {
  // Disarmed before the sockets are forgotten: a late signal would find no sockets.
  thread_timer().set({});
  guarded = nullptr;
}

bool WriteGuard::down() const {
  return ended || fence_.left_ms() == 0;
}

}  // namespace larder::k8s

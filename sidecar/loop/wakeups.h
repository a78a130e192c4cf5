// What can wake the loop, packed into epoll's word; timers and eventfds are read empty here.
#pragma once

#include <sys/epoll.h>

#include <cstdint>

#include "shim/base/fd.h"

namespace larder::loop {

enum class WakeupSource : std::uint32_t { kListener, kTimer, kControl, kSocket, kPidfd, kTier };

struct Wakeup {
  WakeupSource source;
  std::uint32_t session = 0;  // of kTier: the tier's number

  std::uint64_t pack() const { return static_cast<std::uint64_t>(source) << 32 | session; }
  static Wakeup unpack(std::uint64_t word) { return {static_cast<WakeupSource>(word >> 32), static_cast<std::uint32_t>(word)}; }
};

// Level-triggered, for reading. The kernel forgets the descriptor when it is closed.
inline Status watch(const Fd& epoll, int fd, Wakeup wakeup) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = wakeup.pack();
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0) return Status::from_errno(errno, "epoll_ctl");
  return {};
}
inline Status watch(const Fd& epoll, const Fd& fd, Wakeup wakeup) {
  return watch(epoll, fd.get(), wakeup);
}

// Whether a watched descriptor wakes also when there is room to write.
inline Status watch_room(const Fd& epoll, const Fd& fd, Wakeup wakeup, bool wanted) {
  epoll_event event{};
  event.events = EPOLLIN | (wanted ? EPOLLOUT : 0U);
  event.data.u64 = wakeup.pack();
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_MOD, fd.get(), &event) != 0) return Status::from_errno(errno, "epoll_ctl");
  return {};
}

// Makes an eventfd readable. Async-signal-safe; it fails only when it is readable already.
inline void signal_wake(const Fd& eventfd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(eventfd.get(), &one, sizeof(one));
}

// Reads an eventfd or timerfd empty.
inline void clear_wake(const Fd& fd) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t read_bytes = ::read(fd.get(), &count, sizeof(count));
}

}  // namespace larder::loop

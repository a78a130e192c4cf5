// The source of a wakeup of the loop, packed into the data word of epoll; functions to read timers
// and eventfds empty.
#pragma once

#include <sys/epoll.h>

#include <cstdint>

#include "shim/base/fd.h"

namespace larder::loop {

enum class WakeupSource : std::uint32_t {
  kListener,
  kTimer,
  kControl,
  kSocket,
  kPidfd,
  kTier,
  kPeers
};

struct Wakeup {
  WakeupSource source;
  std::uint32_t session = 0;  // for kTier: the number of the tier

  std::uint64_t pack() const { return static_cast<std::uint64_t>(source) << 32 | session; }
  static Wakeup unpack(std::uint64_t word) {
    return {static_cast<WakeupSource>(word >> 32), static_cast<std::uint32_t>(word)};
  }
};

// Watches for reading, level-triggered. The kernel forgets a descriptor that is closed.
inline Status watch(const Fd& epoll, int fd, Wakeup wakeup) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = wakeup.pack();
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return Status::from_errno(errno, "epoll_ctl");
  return {};
}
inline Status watch(const Fd& epoll, const Fd& fd, Wakeup wakeup) {
  return watch(epoll, fd.get(), wakeup);
}

// Sets whether a watched descriptor also wakes the loop when there is room to write.
inline Status watch_room(const Fd& epoll, const Fd& fd, Wakeup wakeup, bool wanted) {
  epoll_event event{};
  event.events = EPOLLIN | (wanted ? EPOLLOUT : 0U);
  event.data.u64 = wakeup.pack();
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_MOD, fd.get(), &event) != 0)
    return Status::from_errno(errno, "epoll_ctl");
  return {};
}

// Makes an eventfd readable. Async-signal-safe. A failed write means that the eventfd is readable
// already.
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

// Poller: waits for the descriptors of one thread, and for whoever wakes it up.
#pragma once

#include <cstdint>

#include "shim/base/fd.h"
#include "shim/base/status.h"

namespace larder::remote {

class Poller {
 public:
  Status open();

  // From now on wait() sets `ready`, which stays where it is, once there is one of `events` (epoll's). `anew`: it was not watched
  // before.
  Status watch(int fd, std::uint32_t events, bool anew, bool& ready) const;
  // Before it is closed: a process that was just forked may have it open a little longer.
  void forget(int fd) const;
  void wait(std::uint64_t timeout_ns);

  void wake() const;                              // thread-safe
  const Fd& wake_fd() const { return wake_fd_; }  // an eventfd: what is written to it wakes up, too

 private:
  Fd epoll_, wake_fd_;
};

}  // namespace larder::remote

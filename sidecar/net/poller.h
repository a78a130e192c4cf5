// Poller: waits for the descriptors of one thread and for wake().
#pragma once

#include <cstdint>

#include "shim/base/fd.h"
#include "shim/base/status.h"

namespace larder::net {

class Poller {
 public:
  Status open();

  // From now on wait() sets `ready` on one of `events` (of epoll). The caller keeps `ready` in
  // place until forget(). `anew`: the descriptor was not watched before.
  Status watch(int fd, std::uint32_t events, bool anew, bool& ready) const;
  // Call before closing the descriptor: a child process just forked may keep the descriptor open a
  // little longer.
  void forget(int fd) const;
  void wait(std::uint64_t timeout_ns);

  void wake() const;                              // thread-safe
  const Fd& wake_fd() const { return wake_fd_; }  // an eventfd: a write has the effect of wake()

 private:
  Fd epoll_, wake_fd_;
};

}  // namespace larder::net

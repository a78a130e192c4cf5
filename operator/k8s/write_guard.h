// WriteGuard: shuts down the sockets of the calling thread's request when a fence comes down. No
// byte leaves the thread afterwards, even if the thread was stopped (SIGSTOP, a frozen cgroup).
//
// A check of the fence before each send leaves a gap between check and send. A timer of the kernel
// closes the gap: its signal goes to this thread, and a resumed thread handles signals before its
// next instruction. The handler only calls shutdown(). The guard lives on the stack of its thread,
// one at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "operator/k8s/fence.h"

namespace larder::k8s {

// The open sockets of one connection, several of them only while curl tries several addresses.
class GuardedSockets {
 public:
  void add(int socket);
  void remove(int socket);
  // Async-signal-safe.
  void shut_down() const;

 private:
  static constexpr std::size_t kMost = 8;
  std::array<std::atomic<int>, kMost> sockets_{-1, -1, -1, -1, -1, -1, -1, -1};
};

class WriteGuard {
 public:
  // Arms the timer. `fence` and `sockets` outlive the guard.
  WriteGuard(const Fence& fence, const GuardedSockets& sockets);
  ~WriteGuard();
  WriteGuard(const WriteGuard&) = delete;
  WriteGuard& operator=(const WriteGuard&) = delete;

  // Whether the fence is down, or was down when the timer fired.
  bool down() const;

 private:
  const Fence& fence_;
};

}  // namespace larder::k8s

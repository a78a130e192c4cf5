// WriteGuard: shuts the sockets of the calling thread's request down when a fence comes down, even where the thread was stopped in
// between (SIGSTOP, a frozen cgroup): no byte leaves it after that.
//
// Asking the fence before each send leaves the moment between the question and the send. A timer of the kernel's fills it: its signal
// goes to this very thread, and a thread that goes on handles its signals before its next instruction. The handler calls shutdown()
// alone. Lives on the stack of the thread that made it, one at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>

#include "operator/k8s/fence.h"

namespace larder::k8s {

// The open sockets of one connection: more than one only while several addresses are tried.
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
  // Armed from its making. `sockets` outlives it.
  WriteGuard(const Fence& fence, const GuardedSockets& sockets);
  ~WriteGuard();
  WriteGuard(const WriteGuard&) = delete;
  WriteGuard& operator=(const WriteGuard&) = delete;

  // The fence is down, or was when the timer ended.
  bool down() const;

 private:
  const Fence& fence_;
};

}  // namespace larder::k8s

// What a container is to Larder: PID and mount namespaces of its own, over shared memory and a socket that several of them see.
//
// For tests of one thread with the right to make them (root).
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "shim/base/fd.h"

namespace larder::crash {

// Processes that are forked while it lives are in a PID namespace of their own; the first of them is process 1 there.
class NewPidNamespace {
 public:
  NewPidNamespace() : before_(::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC)), made_(::unshare(CLONE_NEWPID) == 0) {}
  NewPidNamespace(const NewPidNamespace&) = delete;
  ~NewPidNamespace() {
    if (made_ && ::setns(before_.get(), CLONE_NEWPID) != 0) ::_exit(70);
  }
  bool made() const { return made_; }

 private:
  const Fd before_;
  const bool made_;
};

// From here on this process sees the /proc of its PID namespace. False: it may not.
inline bool mount_own_proc() {
  return ::unshare(CLONE_NEWNS) == 0 && ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("proc", "/proc", "proc", 0, nullptr) == 0;
}

}  // namespace larder::crash

// A container as Larder sees one: PID and mount namespaces of its own, with shared memory and a
// socket that several containers see.
//
// For tests with one thread and the right to make containers (root).
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "shim/base/fd.h"

namespace larder::crash {

// Processes forked during the object's life are in a PID namespace of their own; the first is
// process 1 there.
class NewPidNamespace {
 public:
  NewPidNamespace()
      : before_(::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC)),
        made_(::unshare(CLONE_NEWPID) == 0) {}
  NewPidNamespace(const NewPidNamespace&) = delete;
  ~NewPidNamespace() {
    if (made_ && ::setns(before_.get(), CLONE_NEWPID) != 0) ::_exit(70);
  }
  bool made() const { return made_; }

 private:
  const Fd before_;
  const bool made_;
};

// From here on this process sees the /proc of its PID namespace. False: not permitted.
inline bool mount_own_proc() {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("proc", "/proc", "proc", 0, nullptr) == 0;
}

}  // namespace larder::crash

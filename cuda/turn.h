// Turn: the right of one process on a node to register memory now. Two locks make a turn, because
// neither file is common to all processes of a node. The kernel releases both when the process
// dies, the lock on the library when its forked children without an exec have died too.
// - flock() on the file of NVIDIA's library. Containers get this file from the node, so pods
//   without any other common file share the lock. An image with a library of its own (CUDA's
//   forward compatibility) has its own lock.
// - A record lock on the first byte of the arena's file, which every process with the arena has
//   open.
//
// Owned by one thread.
#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <string>

#include "shim/base/fd.h"

namespace larder::copy::cuda {

class Turn {
 public:
  // `arena` stays open; -1: no other process has the arena. A library that cannot be opened gives
  // no lock.
  Turn(int arena, const std::string& library)
      : arena_(arena), library_(::open(library.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Turn() { give_back(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // False: another process has the turn. A file system without locks gives the turn to every
  // process.
  bool take() {
    taken_ = ::flock(library_.get(), LOCK_EX | LOCK_NB) == 0;
    if (!taken_ && errno == EWOULDBLOCK) return false;
    const bool arena = arena_ >= 0 && set(F_WRLCK);
    if (arena_ >= 0 && !arena && (errno == EACCES || errno == EAGAIN)) {
      give_back();
      return false;
    }
    taken_ = taken_ || arena;
    return true;
  }
  // Whether a lock is held; without one no other process waits.
  bool taken() const { return taken_; }
  void give_back() {
    if (!taken_) return;
    if (arena_ >= 0) set(F_UNLCK);
    ::flock(library_.get(), LOCK_UN);
    taken_ = false;
  }

 private:
  bool set(short type) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_len = 1;
    return ::fcntl(arena_, F_SETLK, &lock) == 0;
  }
  const int arena_;
  const Fd library_;
  bool taken_ = false;
};

}  // namespace larder::copy::cuda

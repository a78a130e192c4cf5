// Turn: the right of one process on a node to register memory now. A record lock on the first byte
// of the arena's file, which every process with the arena has open. The kernel releases the lock
// when the process dies. Pods with different arenas do not see each other's turns.
//
// Owned by one thread. All threads of a process share the process's turn.
#pragma once

#include <fcntl.h>

#include <cerrno>

namespace larder::copy::cuda {

class Turn {
 public:
  // `file` stays open. -1: no other process exists, and take() always succeeds.
  explicit Turn(int file) : file_(file) {}
  ~Turn() { give_back(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // False: another process has the turn. On a file system without locks take() always succeeds.
  bool take() {
    taken_ = file_ >= 0 && set(F_WRLCK);
    return taken_ || file_ < 0 || (errno != EACCES && errno != EAGAIN);
  }
  bool taken() const { return taken_; }
  void give_back() {
    if (taken_) set(F_UNLCK);
    taken_ = false;
  }

 private:
  bool set(short type) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_len = 1;
    return ::fcntl(file_, F_SETLK, &lock) == 0;
  }
  const int file_;
  bool taken_ = false;
};

}  // namespace larder::copy::cuda

// Turn: which process of a node registers memory just now: a record lock on the first byte of the arena's file, which every process that maps the arena has
// open. It goes with the process that has it.
//
// Owned by one thread. Within a process all have the turn together.
#pragma once

#include <fcntl.h>

#include <cerrno>

namespace larder::copy::cuda {

class Turn {
 public:
  // `file` stays open. -1: there is no other process, and it is always this one's turn.
  explicit Turn(int file) : file_(file) {}
  ~Turn() { give_back(); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // False: another process has it. A file system without locks has no turns either.
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

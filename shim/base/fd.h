// Fd: an owned file descriptor, and Mapping: an owned mmap of one.
// Used by both sides of the socket.
//
// Move-only values; thread-compatible. All mappings are MADV_DONTFORK: a forked child of an engine
// must not write an arena.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <utility>

#include "shim/base/status.h"

namespace larder {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_ = -1;
};

// Whether somebody else has a record lock on the file; true also where the lock cannot be read. Its
// owner may be in another container, where its process number has no meaning: only the type tells.
inline bool record_lock_held(const Fd& file) {
  struct flock query {};
  query.l_type = F_WRLCK;
  query.l_whence = SEEK_SET;
  return ::fcntl(file.get(), F_OFD_GETLK, &query) != 0 || query.l_type != F_UNLCK;
}

class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      reset();
      data_ = std::exchange(other.data_, nullptr);
      size_ = std::exchange(other.size_, 0);
    }
    return *this;
  }
  ~Mapping() { reset(); }

  // Maps [0, size_bytes) of fd, shared. `prot` as for mmap.
  // The descriptor may be closed afterwards.
  static Result<Mapping> map_shared(const Fd& fd, std::size_t size_bytes, int prot,
                                    const std::string& what) {
    void* data = ::mmap(nullptr, size_bytes, prot, MAP_SHARED, fd.get(), 0);
    if (data == MAP_FAILED) return Status::from_errno(errno, "mmap " + what);
    ::madvise(data, size_bytes, MADV_DONTFORK);
    Mapping mapping;
    mapping.data_ = static_cast<std::byte*>(data);
    mapping.size_ = size_bytes;
    return mapping;
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  bool valid() const { return data_ != nullptr; }
  void reset() {
    if (data_ != nullptr) ::munmap(data_, size_);
    data_ = nullptr;
    size_ = 0;
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace larder

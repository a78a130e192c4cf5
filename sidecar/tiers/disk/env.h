// Env: the file system, the time of day and randomness for the disk tier. Tests replace it to fail
// the n-th call, to stall, or to tear writes. Thread-compatible; only unix_s() is called outside of
// the thread of the tier.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "shim/base/fd.h"
#include "sidecar/tiers/disk/io_queue.h"

namespace larder::disk {

struct FileFacts {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::uint32_t mode = 0;
  std::uint32_t owner = 0;
  bool directory = false;
};

class Env {
 public:
  virtual ~Env() = default;

  virtual Result<FileFacts> facts(const std::string& path) const;  // does not follow a final link
  virtual Status make_directory(const std::string& path, std::uint32_t mode);
  virtual Result<Fd> open(const std::string& path, int flags, std::uint32_t mode);
  // Takes an exclusive lock of the open file. The lock lasts until the last request on the file has
  // ended, even after the end of the process. kAlreadyExists: another process has the lock.
  virtual Status lock(const Fd& file);
  // Extends the file to `bytes`, with every byte reserved.
  virtual Status reserve(const Fd& file, std::uint64_t bytes);
  // Makes the file bypass the page cache. Returns whether the file system allows it.
  virtual bool set_direct(const Fd& file);
  virtual OpenedQueue open_queue(const IoMemory& memory);
  virtual std::uint32_t unix_s() const;
  virtual std::uint64_t random() const;
};

}  // namespace larder::disk

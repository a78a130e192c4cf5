// Env: the file system, the time of day and chance, as the disk tier sees them. Tests put one of their own in its place, to fail
// the n-th call, to stall, to tear. Thread-compatible; used by the tier's thread, but for unix_s().
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

  virtual Result<FileFacts> facts(const std::string& path) const;  // follows no link at the path's end
  virtual Status make_directory(const std::string& path, std::uint32_t mode);
  virtual Result<Fd> open(const std::string& path, int flags, std::uint32_t mode);
  // An exclusive lock of the open file, which lasts until the last request on it has ended, also after the process has.
  // kAlreadyExists: another has it.
  virtual Status lock(const Fd& file);
  // Makes the file as long as that, with every byte of it reserved.
  virtual Status reserve(const Fd& file, std::uint64_t bytes);
  // Whether the file bypasses the page cache from now on.
  virtual bool set_direct(const Fd& file);
  virtual OpenedQueue open_queue(const IoMemory& memory);
  virtual std::uint32_t unix_s() const;
  virtual std::uint64_t random() const;
};

}  // namespace larder::disk

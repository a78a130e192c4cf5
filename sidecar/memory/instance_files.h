// The files of one larderd: DIRECTORY/NAME.owner (locked while larderd lives), .arena, .index.EPOCH
// (.fresh.EPOCH until the index is whole), .namespaces.EPOCH, .lock.SESSION.
//
// The functions run once, at start. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shim/base/fd.h"
#include "shim/protocol/index_layout.h"
#include "sidecar/config/config.h"

namespace larder::memory {

// The right to the files of NAME: a lock on the .owner file. The destructor unlinks the file.
class InstanceLock {
 public:
  InstanceLock() = default;
  InstanceLock(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  InstanceLock(InstanceLock&& other) noexcept
      : fd_(std::move(other.fd_)), path_(std::exchange(other.path_, "")) {}
  InstanceLock& operator=(InstanceLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(path_, other.path_);
    return *this;
  }
  ~InstanceLock() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }

 private:
  Fd fd_;
  std::string path_;
};

// kAlreadyExists: a living larderd has the name.
Result<InstanceLock> lock_instance(const config::MemoryConfig& memory);

// Cold start, before new files are made: marks old indexes dead, so that engines that still map an
// old index attach again. Then unlinks the indexes, the old arenas (on normal and on huge pages)
// and the lock files. Returns the highest generation of all old indexes, or 0. REQUIRES:
// lock_instance().
Result<std::uint64_t> remove_old_files(const config::MemoryConfig& memory);

// Marks one old index dead and returns its highest generation; 0 if the file is no index.
std::uint64_t retire_index(const std::string& path, protocol::IndexRetirement end);

std::string arena_path(const config::MemoryConfig& memory, bool hugepages);
std::string index_path(const config::MemoryConfig& memory, std::uint64_t epoch);
std::string fresh_index_path(const config::MemoryConfig& memory, std::uint64_t epoch);
std::string namespaces_path(const config::MemoryConfig& memory, std::uint64_t epoch);
std::string lock_path(const config::MemoryConfig& memory, std::uint32_t session);

// The files NAME.KIND.number in the directory.
struct NumberedFile {
  std::uint64_t number;
  std::string path;
};
Result<std::vector<NumberedFile>> numbered_files(const config::MemoryConfig& memory,
                                                 const std::string& kind);

}  // namespace larder::memory

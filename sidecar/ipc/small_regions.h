// The regions beside the arena: index file, session memfd, lock file. Values that own their descriptors and mappings.
//
// Owned by the loop's thread.
#pragma once

#include <cstdint>
#include <string>

#include "shim/protocol/fd.h"
#include "shim/protocol/session_layout.h"

namespace larder::ipc {

// A named file, written by the sidecar; engines get a descriptor that can only read.
struct IndexFile {
  Fd read_only;
  Mapping mapping;
  std::string path;

  static Result<IndexFile> create(const std::string& path, std::uint64_t size_bytes);
};

// A memfd of fixed size that neither side can shrink or grow.
struct SessionMemory {
  Fd fd;
  Mapping mapping;

  static Result<SessionMemory> create();
  const protocol::SessionRegion& region() const { return *reinterpret_cast<const protocol::SessionRegion*>(mapping.data()); }
};

// An empty file that the engine's process keeps a record lock on for as long as it may write. Unlinked with this object.
// One descriptor serves for asking and for sending: closing another one of the same process would drop a lock held by it.
class LockFile {
 public:
  static Result<LockFile> create(const std::string& path);
  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&&) = delete;
  ~LockFile();

  int fd() const { return fd_.get(); }
  // Whether some process holds it. When the kernel cannot tell, it counts as held.
  bool held() const;

 private:
  LockFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Fd fd_;
  std::string path_;
};

}  // namespace larder::ipc

// The regions beside the arena: index file, session memfd, lock file. Values that own their descriptors and mappings.
//
// Owned by the loop's thread.
#pragma once

#include <cstdint>
#include <string>

#include "shim/base/fd.h"
#include "shim/protocol/session_layout.h"

namespace larder::memory {

// What index and below region are sized for: chunks of real models are far larger.
inline constexpr std::uint64_t kSmallestUsualSlot = 64 << 10;

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

// A file that the engine's process keeps a record lock on for as long as it may write. Unlinked with this object, unless it is kept for
// the next life of the sidecar. In it stands which session it is of: an engine that overwrites that is not recognised, and waits longer.
// One descriptor serves for asking and for sending: closing another one of the same process would drop a lock held by it.
class LockFile {
 public:
  // The session that the engine will name when it attaches anew: its newest one or, where it never learnt that it had that (the
  // handshake was lost behind ATTACHED), the one that it named then. 0: none is known.
  struct Note {
    std::uint64_t token = 0, epoch = 0;
    std::uint64_t before_token = 0, before_epoch = 0;
    bool names(std::uint64_t session, std::uint64_t of_epoch) const {
      return session != 0 && ((session == token && of_epoch == epoch) ||
                              (session == before_token && of_epoch == before_epoch));  // mutation: restart-both-names
    }
  };
  static Result<LockFile> create(const std::string& path);
  // One that an earlier life left.
  static Result<LockFile> open(const std::string& path);
  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&&) = delete;
  ~LockFile();

  int fd() const { return fd_.get(); }
  // Whether some process holds it. When the kernel cannot tell, it counts as held.
  bool held() const;
  Status write(const Note& note) const;
  Note read() const;
  // Whether the engine said that a device of its own writes into its slots. What it says falsely costs it time with its own slots.
  bool device_writes() const;
  // The same of a GPU that larderd itself copied with for that session (transfer: sidecar). In its own life it knows better when a copy has ended.
  bool sidecar_writes() const;
  Status note_sidecar_writes() const;
  // Whether the file stays when this object goes.
  void set_kept(bool kept) { kept_ = kept; }

 private:
  bool said(std::int64_t offset) const;
  LockFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Fd fd_;
  std::string path_;
  bool kept_ = false;
};

}  // namespace larder::memory

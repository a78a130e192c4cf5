// LockFile: a file with a record lock that the process of an engine holds as long as it may write.
//
// The destructor unlinks the file, unless the file is kept for the next larderd. The content names
// the session. An engine that overwrites the content is not recognised after a restart, and waits
// longer. One descriptor serves to query the lock and to send to the engine: closing a second
// descriptor of the same file in a process drops the record locks of that process.
//
// Owned by the thread of the loop.
#pragma once

#include <cstdint>
#include <string>

#include "shim/base/fd.h"

namespace larder::memory {

class LockFile {
 public:
  // The session that the engine will name when it attaches again: the newest session or, if the
  // engine never learnt of that session (the handshake was lost behind ATTACHED), the session
  // before. 0: unknown.
  struct Note {
    std::uint64_t token = 0, epoch = 0;
    std::uint64_t before_token = 0, before_epoch = 0;
    bool names(std::uint64_t session, std::uint64_t of_epoch) const {
      return session != 0 && ((session == token && of_epoch == epoch) ||
                              (session == before_token &&
                               of_epoch == before_epoch));  // mutation: restart-both-names
    }
  };
  static Result<LockFile> create(const std::string& path);
  // Opens the lock file of an earlier larderd.
  static Result<LockFile> open(const std::string& path);
  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&&) = delete;
  ~LockFile();

  int fd() const { return fd_.get(); }
  // Whether a process holds the lock. A failed query counts as held.
  bool held() const;
  Status write(const Note& note) const;
  Note read() const;
  // Whether the engine declared that its own device writes into its slots. A false declaration only
  // delays the engine's own slots.
  bool device_writes() const;
  // The same for a GPU with which larderd copied for that session (transfer: sidecar). Only the
  // next larderd needs the mark: this larderd knows when its copies end.
  bool sidecar_writes() const;
  Status note_sidecar_writes() const;
  // Whether the destructor leaves the file.
  void set_kept(bool kept) { kept_ = kept; }

 private:
  bool said(std::int64_t offset) const;
  LockFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  Fd fd_;
  std::string path_;
  bool kept_ = false;
};

}  // namespace larder::memory

#include "sidecar/memory/lock_file.h"

#include <fcntl.h>

#include <cstddef>
#include <span>
#include <utility>

#include "shim/protocol/lock_layout.h"
#include "sidecar/base/file_write.h"

namespace larder::memory {

// A file for each session, since a POSIX record lock belongs to a process and a file.
Result<LockFile> LockFile::create(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return Status::from_errno(errno, "create lock file " + path);
  return LockFile(std::move(fd), path);
}

Result<LockFile> LockFile::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return Status::from_errno(errno, "open lock file " + path);
  return LockFile(std::move(fd), path);
}

Status LockFile::write(const Note& note) const {
  return base::write_all_at(fd_.get(), std::as_bytes(std::span(&note, 1)), 0,
                            "write lock file " + path_);
}

// A larderd of an earlier version wrote only the first two words.
LockFile::Note LockFile::read() const {
  constexpr ssize_t kFirstTwo = 16;
  static_assert(sizeof(Note) == 32 && offsetof(Note, before_token) == kFirstTwo);
  Note note;
  const ssize_t got = ::pread(fd_.get(), &note, sizeof(note), 0);
  if (got == sizeof(note)) return note;
  return got == kFirstTwo ? Note{note.token, note.epoch} : Note{};
}

// One byte behind the note: the engine or larderd writes the byte before a GPU may write into a
// slot. The next larderd then waits for the GPU.
bool LockFile::said(std::int64_t offset) const {
  static_assert(sizeof(Note) == protocol::kDeviceWritesOffset);
  std::uint8_t byte = 0;
  return ::pread(fd_.get(), &byte, sizeof(byte), offset) == sizeof(byte) && byte != 0;
}

bool LockFile::device_writes() const {
  return said(protocol::kDeviceWritesOffset);
}

bool LockFile::sidecar_writes() const {
  return said(protocol::kSidecarWritesOffset);
}

Status LockFile::note_sidecar_writes() const {
  const auto yes = std::byte{1};
  return base::write_all_at(fd_.get(), {&yes, 1}, protocol::kSidecarWritesOffset,
                            "write lock file " + path_);
}

LockFile::LockFile(LockFile&& other) noexcept
    : fd_(std::move(other.fd_)), path_(std::exchange(other.path_, "")), kept_(other.kept_) {}

LockFile::~LockFile() {
  // A kept file is for the next larderd, which finds the engines of this one by these locks.
  if (!path_.empty() && !kept_) ::unlink(path_.c_str());
}

bool LockFile::held() const {
  return record_lock_held(fd_);
}

}  // namespace larder::memory

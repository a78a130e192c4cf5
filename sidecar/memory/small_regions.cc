#include "sidecar/memory/small_regions.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstddef>
#include <span>
#include <utility>

#include "shim/protocol/lock_layout.h"
#include "shim/protocol/version.h"
#include "sidecar/base/file_limit.h"
#include "sidecar/base/file_write.h"
#include "sidecar/base/sizes.h"

namespace larder::memory {

// Engines get the read-only descriptor. O_EXCL and O_NOFOLLOW: the directory may be writable by
// others.
Result<IndexFile> IndexFile::create(const std::string& path, std::uint64_t size_bytes) {
  IndexFile index;
  const Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return Status::from_errno(errno, "create index " + path);
  index.path = path;
  // Engines get this descriptor: the index is read-only for them, so a broken engine cannot damage
  // the cache of others.
  index.read_only = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!index.read_only.valid()) return Status::from_errno(errno, "open index " + path);
  // Allocates every page now. A page that the kernel cannot allocate later, in a full directory,
  // would be a SIGBUS in larderd or in an engine during a look-up.
  if (const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(size_bytes));
      error != 0) {
    ::unlink(path.c_str());
    return base::file_failure(error, "allocate " + base::mib(size_bytes) + " for index " + path);
  }
  Result<Mapping> mapping = Mapping::map_shared(fd, size_bytes, PROT_READ | PROT_WRITE, path);
  if (!mapping.ok()) return mapping.status();
  index.mapping = std::move(*mapping);
  return index;
}

Result<SessionMemory> SessionMemory::create() {
  constexpr std::size_t kBytes = sizeof(protocol::SessionRegion);
  SessionMemory memory;
  memory.fd = Fd(::memfd_create("larder-session", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memory.fd.valid()) return Status::from_errno(errno, "memfd_create for a session");
  const int fd = memory.fd.get();
  // A memfd starts with mode 0777: another user could open it through /proc.
  if (::fchmod(fd, 0600) != 0 || ::ftruncate(fd, kBytes) != 0 ||
      // The seals forbid resizing: an engine that shrinks the memfd would kill larderd with SIGBUS.
      // F_SEAL_SEAL forbids a later F_SEAL_WRITE.
      ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return base::file_failure(errno, "size and seal a session region");
  Result<Mapping> mapping =
      Mapping::map_shared(memory.fd, kBytes, PROT_READ | PROT_WRITE, "session region");
  if (!mapping.ok()) return mapping.status();
  memory.mapping = std::move(*mapping);
  auto* region = reinterpret_cast<protocol::SessionRegion*>(memory.mapping.data());
  // The engine checks magic and version before anything else, because its library may be older or
  // newer.
  region->magic = protocol::kSessionMagic;
  region->version_major = protocol::kVersionMajor;
  region->version_minor = protocol::kVersionMinor;
  return memory;
}

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

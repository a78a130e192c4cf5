#include "sidecar/tiers/disk/env.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <cerrno>
#include <ctime>

#include "sidecar/base/file_limit.h"

namespace larder::disk {

Result<FileFacts> Env::facts(const std::string& path) const {
  struct stat info {};
  // A link in the place of the folder is reported as a link, and refused as no directory.
  if (::lstat(path.c_str(), &info) != 0) return Status::from_errno(errno, path);
  return FileFacts{info.st_dev,           info.st_ino, static_cast<std::uint64_t>(info.st_size),
                   info.st_mode & 07777U, info.st_uid, S_ISDIR(info.st_mode)};
}

Status Env::make_directory(const std::string& path, std::uint32_t mode) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return Status::from_errno(errno, path);
  return {};
}

Result<Fd> Env::open(const std::string& path, int flags, std::uint32_t mode) {
  // O_NOFOLLOW refuses a planted link. O_CLOEXEC keeps child processes from holding the lock of
  // the file.
  Fd file(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!file.valid()) return Status::from_errno(errno, path);
  return file;
}

Status Env::lock(const Fd& file) {
  // flock belongs to the open file and not to the process. Requests in flight keep the file open,
  // so a killed process keeps the lock until the last write has ended.
  if (::flock(file.get(), LOCK_EX | LOCK_NB) == 0) return {};
  if (errno == EWOULDBLOCK) return {Code::kAlreadyExists, "locked"};
  return Status::from_errno(errno, "flock");
}

Status Env::reserve(const Fd& file, std::uint64_t bytes) {
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return Status::from_errno(errno, "fstat");
  const auto size = static_cast<off_t>(bytes);
  // A smaller disk.size gives the space back.
  if (info.st_size > size && ::ftruncate(file.get(), size) != 0)
    return Status::from_errno(errno, "ftruncate");
  // All space is reserved before the first record. Later a full file system cannot fail an append,
  // and the file never grows.
  if (::fallocate(file.get(), 0, 0, size) != 0) return base::file_failure(errno, "fallocate");
  return {};
}

bool Env::set_direct(const Fd& file) {
  const int flags = ::fcntl(file.get(), F_GETFL);
  // By fcntl and not by open(): tmpfs and some network file systems refuse O_DIRECT. A refusal
  // selects the page cache (F-132).
  return flags >= 0 && ::fcntl(file.get(), F_SETFL, flags | O_DIRECT) == 0;
}

OpenedQueue Env::open_queue(const IoMemory& memory) {
  return open_io_queue(memory);
}

std::uint32_t Env::unix_s() const {
  return static_cast<std::uint32_t>(::time(nullptr));
}

std::uint64_t Env::random() const {
  std::uint64_t value = 0;
  if (::getrandom(&value, sizeof(value), 0) != sizeof(value))
    // The number only tells this volume from an earlier one in the same file. The time suffices
    // where a sandbox refuses getrandom().
    value = static_cast<std::uint64_t>(::time(nullptr)) * 0x9e3779b97f4a7c15ULL;
  return value;
}

}  // namespace larder::disk

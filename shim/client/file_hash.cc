#include "shim/client/file_hash.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "shim/base/fd.h"
#include "shim/client/stream_hash.h"

namespace larder::client {
namespace {

constexpr std::size_t kReadBytes = 1 << 20;
// The kernel copies pages of its cache three times as fast into a buffer that begins at a page
// (seen on AMD EPYC) as into a buffer of malloc(), which begins 16 bytes later.
constexpr std::align_val_t kReadAlignment{4096};
constexpr std::size_t kCountBytes = 1 << 30;  // counted at once: 256 KiB of answers

// The kernel's numbers of file systems whose bytes come from this machine (linux/magic.h and the
// file systems' own sources). Any other, known or not, is taken for a network file system: NFS,
// SMB, FUSE, Ceph, Lustre, 9p, GPFS, BeeGFS, AFS.
constexpr std::uint32_t kLocal[] = {
    0x0000EF53,  // ext2, ext3, ext4
    0x58465342,  // XFS
    0x9123683E,  // Btrfs
    0xF2F52010,  // F2FS
    0x2FC12FC1,  // ZFS
    0xCA451A4E,  // bcachefs
    0x01021994,  // tmpfs
    0x858458F6,  // ramfs
    0x794C7630,  // overlayfs, the layers of a container image
    0x73717368,  // SquashFS
    0xE0F5E1E2,  // EROFS
    0x00009660,  // ISO 9660
};

bool is_local(int fd) {
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0) return false;
  return std::ranges::find(kLocal, static_cast<std::uint32_t>(system.f_type)) != std::end(kLocal);
}

std::int64_t nanoseconds(const timespec& time) {
  return time.tv_sec * std::int64_t{1'000'000'000} + time.tv_nsec;
}

Result<FileStamp> stamp_of(int fd, const std::string& path) {
  struct stat found {};
  if (::fstat(fd, &found) != 0) return Status::from_errno(errno, "fstat " + path);
  if (!S_ISREG(found.st_mode)) return Status(Code::kInvalidArgument, path + " is no regular file");
  return FileStamp{found.st_dev, found.st_ino, static_cast<std::uint64_t>(found.st_size),
                   nanoseconds(found.st_mtim), nanoseconds(found.st_ctim)};
}

// O_NONBLOCK: a FIFO at the path must not stop the caller. Regular files ignore the flag.
Result<Fd> open_file(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.valid()) return fd;
  if (errno == ENOENT || errno == ENOTDIR) return Status(Code::kNotFound, path + " is not there");
  return Status::from_errno(errno, "open " + path);
}

// mincore() answers "in memory" for every page of a file that is neither the caller's own nor
// writable for it.
bool residency_is_told(int fd, const std::string& path) {
  struct stat found {};
  return (::fstat(fd, &found) == 0 && found.st_uid == ::geteuid()) ||
         ::faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) == 0;
}

bool stopped(const std::int32_t* stop) {
  return stop != nullptr && __atomic_load_n(stop, __ATOMIC_RELAXED) != 0;
}

Status stopped_status(const std::string& path) {
  return {Code::kDeadlineExceeded, "reading " + path + " was stopped"};
}

// Bytes of the file that the page cache does not hold; `size` where the kernel does not tell.
// Touches no page of the mapping and so reads no byte.
std::uint64_t uncached_bytes(int fd, const std::string& path, std::uint64_t size,
                             const std::int32_t* stop) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  // The whole size is the safe answer: a file over a network is then refused, not read by mistake.
  if (size == 0 || !residency_is_told(fd, path)) return size;
  std::vector<unsigned char> resident(kCountBytes / page);
  std::uint64_t missing = 0;
  for (std::uint64_t at = 0; at < size && !stopped(stop); at += kCountBytes) {
    const std::size_t bytes = std::min<std::uint64_t>(kCountBytes, size - at);
    void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(at));
    if (mapped == MAP_FAILED) return size;
    const bool known = ::mincore(mapped, bytes, resident.data()) == 0;
    ::munmap(mapped, bytes);
    if (!known) return size;
    const std::size_t pages = (bytes + page - 1) / page;
    missing += page * std::count_if(resident.begin(),
                                    resident.begin() + static_cast<std::ptrdiff_t>(pages),
                                    [](unsigned char state) { return (state & 1) == 0; });
  }
  return std::min(missing, size);
}

struct FreeAligned {
  void operator()(void* buffer) const { ::operator delete(buffer, kReadAlignment); }
};

// Hashes exactly `size` bytes; a file that has become shorter is kUnavailable.
Status read_whole(int fd, const std::string& path, std::uint64_t size, const std::int32_t* stop,
                  StreamHash& hash) {
  const std::size_t buffer_bytes =
      std::min<std::uint64_t>(kReadBytes, std::max<std::uint64_t>(size, 1));
  const std::unique_ptr<void, FreeAligned> buffer(::operator new(buffer_bytes, kReadAlignment));
  ::posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
  for (std::uint64_t at = 0; at < size;) {
    if (stopped(stop)) return stopped_status(path);
    const ssize_t got = ::pread(fd, buffer.get(), std::min<std::uint64_t>(buffer_bytes, size - at),
                                static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::from_errno(errno, "read " + path);
    if (got == 0) return {Code::kUnavailable, path + " became shorter during the read"};
    hash.update(buffer.get(), static_cast<std::size_t>(got));
    at += static_cast<std::uint64_t>(got);
  }
  return {};
}

}  // namespace

Result<FileDigest> hash_file(const char* path, const HashLimits& limits, const std::int32_t* stop) {
  const std::string name(path);
  const Result<Fd> fd = open_file(name);
  if (!fd.ok()) return fd.status();
  const Result<FileStamp> before = stamp_of(fd->get(), name);
  if (!before.ok()) return before.status();

  FileDigest file;
  file.stamp = *before;
  file.local = is_local(fd->get());
  // Counting takes a mapping and a system call for each GiB, which a local disk does not need.
  if (!file.local || limits.local_too) {
    file.uncached_bytes = uncached_bytes(fd->get(), name, before->size_bytes, stop);
    if (stopped(stop)) return stopped_status(name);
    if (file.uncached_bytes > limits.uncached_bytes)
      return Status(Code::kOutOfRange, std::to_string(file.uncached_bytes) + " bytes of " + name +
                                           " are not in the page cache");
  }
  StreamHash hash;
  if (Status read = read_whole(fd->get(), name, before->size_bytes, stop, hash); !read.ok())
    return read;
  const Result<FileStamp> after = stamp_of(fd->get(), name);
  if (!after.ok()) return after.status();
  // A writer may have replaced bytes behind the read position. ctime changes with each write.
  if (*after != *before) return Status(Code::kUnavailable, name + " changed during the read");
  file.digest = hash.digest();
  return file;
}

}  // namespace larder::client

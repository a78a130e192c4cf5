#include "sidecar/ipc/arena_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "sidecar/base/log.h"
#include "sidecar/ipc/owned_name.h"

namespace larder::ipc {
namespace {

constexpr std::uint64_t kHugePageBytes = 2ULL << 20;

std::string mib(std::uint64_t bytes) {
  return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB";
}
std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Engines of an earlier life map its arena until they see that it is dead, within half a second: an unlinked file that takes room.
constexpr int kLooks = 40;
constexpr std::chrono::milliseconds kBetweenLooks{50};

// `free` and `total` tell what there is now. Returns what is free at last: as soon as it is enough, at once if it can never be.
template <typename Free>
std::uint64_t await_room(std::uint64_t needed, std::uint64_t total, const Free& free) {
  std::uint64_t now = free();
  for (int look = 0; look < kLooks && now < needed && needed <= total; ++look) {
    if (look == 0) base::log_info("waiting for room: engines may still map the arena of an earlier larderd");
    std::this_thread::sleep_for(kBetweenLooks);
    now = free();
  }
  return now;
}

void warn_unless_tmpfs(const std::string& directory) {
  struct statfs info {};
  if (::statfs(directory.c_str(), &info) == 0 && info.f_type != TMPFS_MAGIC)
    base::log_warning("memory.directory " + directory + " is no tmpfs: what is cached there is also written to its disk");
}

Status check_space(const std::string& directory, std::uint64_t needed) {
  struct statvfs info {};
  if (::statvfs(directory.c_str(), &info) != 0) return Status::from_errno(errno, "memory.directory " + directory);
  if (info.f_blocks == 0) return {};  // a tmpfs without a limit
  const std::uint64_t total = static_cast<std::uint64_t>(info.f_blocks) * info.f_frsize;
  const std::uint64_t free = await_room(needed, total, [&] {
    ::statvfs(directory.c_str(), &info);
    return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  });
  if (free >= needed) return {};
  return {Code::kResourceExhausted,
          "memory.directory " + directory + " has " + mib(free) + " free and the cache needs " + mib(needed) +
              ": enlarge it (docker run --shm-size, emptyDir sizeLimit, mount -o remount,size=), or lower memory.size"};
}

std::uint64_t read_number(const std::string& path) {
  std::uint64_t value = 0;
  std::ifstream(path) >> value;
  return value;
}

// The system's free pages less those promised to others.
std::uint64_t free_huge_pages() {
  const std::string directory = "/sys/kernel/mm/hugepages/hugepages-2048kB/";
  const std::uint64_t free = read_number(directory + "free_hugepages");
  const std::uint64_t promised = read_number(directory + "resv_hugepages");
  return free > promised ? free - promised : 0;
}

Status check_huge_pages(const config::MemoryConfig& memory) {
  struct statfs info {};
  const std::string& directory = memory.hugepage_directory;
  const int error = ::statfs(directory.c_str(), &info) != 0 ? errno : 0;
  if (error != 0 && error != ENOENT) return Status::from_errno(error, "memory.hugepage_directory " + directory);
  if (error == ENOENT || info.f_type != HUGETLBFS_MAGIC || static_cast<std::uint64_t>(info.f_bsize) != kHugePageBytes)
    return {Code::kFailedPrecondition, "memory.hugepage_directory " + directory + " is no hugetlbfs of 2 MiB pages: mkdir -p " +
                                           directory + " && mount -t hugetlbfs -o pagesize=2M none " + directory};
  const std::uint64_t needed = round_up(memory.size_bytes, kHugePageBytes) / kHugePageBytes;
  const std::uint64_t total = read_number("/proc/sys/vm/nr_hugepages");
  const std::uint64_t free = await_room(needed, total, free_huge_pages);
  if (free >= needed) return {};
  return {Code::kResourceExhausted,
          std::to_string(free) + " of " + std::to_string(needed) + " huge pages of 2 MiB are free: sysctl vm.nr_hugepages=" +
              std::to_string(total + needed - free) + ", or memory.hugepages: prefer to start without them"};
}

Result<ArenaFile> make_file(const std::string& path, std::uint64_t size_bytes, std::uint64_t page_bytes) {
  ArenaFile arena;
  arena.path = path;
  arena.page_bytes = page_bytes;
  arena.fd = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!arena.fd.valid()) return Status::from_errno(errno, "create arena " + path);
  ::flock(arena.fd.get(), LOCK_EX | LOCK_NB);  // tells others that it is in use; cannot fail on a file just made
  Result<Mapping> mapping = ::ftruncate(arena.fd.get(), static_cast<off_t>(size_bytes)) == 0
                                ? Mapping::map_shared(arena.fd, size_bytes, PROT_READ | PROT_WRITE, path)
                                : Status::from_errno(errno, "ftruncate " + path + " to " + mib(size_bytes));
  if (!mapping.ok()) {
    ::unlink(path.c_str());
    return mapping.status();
  }
  arena.mapping = std::move(*mapping);
  return arena;
}

Result<ArenaFile> huge_arena(const config::MemoryConfig& memory) {
  if (Status status = check_huge_pages(memory); !status.ok()) return status;
  return make_file(arena_path(memory, true), round_up(memory.size_bytes, kHugePageBytes), kHugePageBytes);
}

}  // namespace

Result<ArenaFile> create_arena(const config::MemoryConfig& memory, std::uint64_t other_bytes) {
  warn_unless_tmpfs(memory.directory);
  std::string fallback;
  if (memory.hugepages != config::Hugepages::kNone) {
    if (Status status = check_space(memory.directory, other_bytes); !status.ok()) return status;
    Result<ArenaFile> arena = huge_arena(memory);
    if (arena.ok() || memory.hugepages == config::Hugepages::k2Mi) return arena;
    fallback = "4 KiB pages: " + arena.status().text();
    base::log_warning("memory.hugepages: prefer: " + fallback);
  }
  const std::uint64_t size_bytes = round_up(memory.size_bytes, 4096);
  if (Status status = check_space(memory.directory, size_bytes + other_bytes); !status.ok()) return status;
  Result<ArenaFile> arena = make_file(arena_path(memory, false), size_bytes, 4096);
  if (arena.ok()) arena->fallback = fallback;
  return arena;
}

}  // namespace larder::ipc

#include "sidecar/memory/arena_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <algorithm>

#include "sidecar/base/file_limit.h"
#include "sidecar/base/log.h"
#include "sidecar/base/sizes.h"
#include "sidecar/memory/huge_pages.h"
#include "sidecar/memory/instance_files.h"
#include "sidecar/memory/numa.h"
#include "sidecar/memory/wait_for_space.h"

namespace larder::memory {
namespace {

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// A warning and no error: tests and trials may use any directory.
void warn_unless_tmpfs(const std::string& directory) {
  struct statfs info {};
  if (::statfs(directory.c_str(), &info) == 0 && info.f_type != TMPFS_MAGIC)
    base::log_warning("memory.directory " + directory +
                      " is no tmpfs: cached chunks are also written to the disk of this directory");
}

Status check_space(const std::string& directory, std::uint64_t needed) {
  struct statvfs info {};
  if (::statvfs(directory.c_str(), &info) != 0)
    return Status::from_errno(errno, "memory.directory " + directory);
  if (info.f_blocks == 0) return {};  // a tmpfs without a limit
  const std::uint64_t total = static_cast<std::uint64_t>(info.f_blocks) * info.f_frsize;
  // Engines may still map the unlinked arena of an earlier larderd, and the arena takes room until
  // then.
  const std::uint64_t free = wait_for_space(needed, total, [&] {
    ::statvfs(directory.c_str(), &info);
    return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  });
  if (free >= needed) return {};
  return {Code::kResourceExhausted, "memory.directory " + directory + " has " + base::mib(free) +
                                        " free and the cache needs " + base::mib(needed) +
                                        ": enlarge the directory (docker run --shm-size, emptyDir "
                                        "sizeLimit, mount -o remount,size=), or lower memory.size"};
}

// 0 for normal pages.
std::uint64_t huge_page_bytes(config::Hugepages hugepages) {
  switch (hugepages) {
    case config::Hugepages::kNone: return 0;
    case config::Hugepages::k2Mi:
    case config::Hugepages::kPrefer2Mi: return 2ULL << 20;
    case config::Hugepages::k1Gi: return 1ULL << 30;
  }
  return 0;
}

// Refuses a binding to nodes with too little memory: the OOM killer would end a process sooner or
// later.
Status check_nodes(const NumaPlan& plan, std::uint64_t size_bytes) {
  if (plan.nodes.empty()) return {};
  const std::uint64_t total = memory_of_nodes(plan.nodes);
  if (total >= size_bytes) return {};
  return {Code::kResourceExhausted, "memory.numa: " + plan.text() + " has " + base::mib(total) +
                                        " in all and the cache needs " + base::mib(size_bytes) +
                                        ": lower memory.size, or memory.numa: none"};
}

// If the kernel refuses an optional binding, the arena goes on without a binding.
Status bind_arena(const NumaPlan& plan, ArenaFile& arena) {
  arena.numa = plan.text();
  if (plan.nodes.empty()) return {};
  Status status = bind_memory(plan, {arena.mapping.data(), arena.mapping.size()});
  if (status.ok() || !plan.optional) return status;
  arena.numa = NumaPlan{}.text();
  arena.numa_fallback = status.text();
  base::log_warning("memory.numa: auto: " + status.text());
  return {};
}

// memory.numa may have changed since the pages were made. Engines use the pages, so larderd cannot
// move them, and reports a fallback.
void look_for_other_nodes(const NumaPlan& plan, std::uint64_t touched_bytes, ArenaFile& arena) {
  if (plan.nodes.empty()) return;
  const NumaNodes others = other_nodes(
      plan.nodes,
      {arena.mapping.data(), std::min<std::uint64_t>(touched_bytes, arena.mapping.size())});
  if (others.empty()) return;
  arena.numa = NumaPlan{}.text();
  arena.numa_fallback = "memory of an earlier larderd stays on " + NumaPlan{others}.text() +
                        ", not on " + plan.text() +
                        ": larderd --free-memory before the next start frees this memory";
  base::log_warning("memory.numa: " + arena.numa_fallback);
}

// Locks the file, opens the descriptor for engines, and maps the file.
Status take_file(const std::string& path, std::uint64_t size_bytes, ArenaFile& arena) {
  // A second lock beside NAME.owner: on huge pages two larderd with different memory.directory may
  // share one arena path.
  if (::flock(arena.fd.get(), LOCK_EX | LOCK_NB) != 0)
    return {Code::kAlreadyExists, path +
                                      " is in use by another larderd: give this one another pool, "
                                      "or memory.shm_name and socket"};
  // A second open file for engines: flock() belongs to the open file, and a living engine would
  // keep the lock of a dead larderd.
  arena.to_engines = Fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!arena.to_engines.valid()) return Status::from_errno(errno, "open arena " + path);
  Result<Mapping> mapping = Mapping::map_shared(arena.fd, size_bytes, PROT_READ | PROT_WRITE, path);
  if (mapping.ok()) arena.mapping = std::move(*mapping);
  return mapping.status();
}

Result<ArenaFile> make_file(const std::string& path, std::uint64_t size_bytes,
                            std::uint64_t page_bytes, const NumaPlan& plan) {
  ArenaFile arena;
  arena.path = path;
  arena.page_bytes = page_bytes;
  // Mode 0600, and O_EXCL with O_NOFOLLOW: the directory may be writable by all, as /dev/shm is.
  // Another user's link or file must not become the arena.
  arena.fd = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!arena.fd.valid()) return Status::from_errno(errno, "create arena " + path);
  Status status =
      // The only ftruncate() of the arena. Later the arena is never truncated and never punched: an
      // engine in the middle of a copy would die of SIGBUS.
      ::ftruncate(arena.fd.get(), static_cast<off_t>(size_bytes)) == 0
          ? take_file(path, size_bytes, arena)
          : base::file_failure(errno, "ftruncate " + path + " to " + base::mib(size_bytes));
  // Before the first page is touched: mbind() without MPOL_MF_MOVE decides only about new pages.
  if (status.ok()) status = bind_arena(plan, arena);
  if (status.ok()) return arena;
  ::unlink(path.c_str());
  return status;
}

Result<ArenaFile> huge_arena(const config::MemoryConfig& memory, const NumaPlan& plan) {
  const std::uint64_t page_bytes = huge_page_bytes(memory.hugepages);
  if (Status status =
          check_huge_pages(memory.hugepage_directory, page_bytes, memory.size_bytes, plan.nodes);
      !status.ok()) {
    const bool say_prefer =
        memory.hugepages == config::Hugepages::k2Mi && status.code() == Code::kResourceExhausted;
    return Status(
        status.code(),
        status.text() + (say_prefer ? ", or memory.hugepages: prefer to start without them" : ""));
  }
  return make_file(arena_path(memory, true), round_up(memory.size_bytes, page_bytes), page_bytes,
                   plan);
}

}  // namespace

Result<ArenaFile> create_arena(const config::MemoryConfig& memory, std::uint64_t other_bytes) {
  warn_unless_tmpfs(memory.directory);
  const Result<NumaPlan> plan = plan_numa(memory.numa, read_numa_facts(""));
  if (!plan.ok()) return plan.status();
  if (Status status = check_nodes(*plan, memory.size_bytes); !status.ok()) return status;
  std::string fallback;
  if (memory.hugepages != config::Hugepages::kNone) {
    if (Status status = check_space(memory.directory, other_bytes); !status.ok()) return status;
    Result<ArenaFile> arena = huge_arena(memory, *plan);
    if (arena.ok() || memory.hugepages != config::Hugepages::kPrefer2Mi) return arena;
    fallback = "4 KiB pages: " + arena.status().text();
    base::log_warning("memory.hugepages: prefer: " + fallback);
  }
  const std::uint64_t size_bytes = round_up(memory.size_bytes, 4096);
  if (Status status = check_space(memory.directory, size_bytes + other_bytes); !status.ok())
    return status;
  Result<ArenaFile> arena = make_file(arena_path(memory, false), size_bytes, 4096, *plan);
  if (arena.ok()) arena->fallback = fallback;
  return arena;
}

std::optional<ArenaLeft> find_arena(const config::MemoryConfig& memory) {
  // With `prefer`, the arena of the earlier larderd may be on either kind of pages. Huge pages
  // first.
  for (const bool huge : {true, false}) {
    const bool looked_at = huge ? memory.hugepages != config::Hugepages::kNone
                                : memory.hugepages == config::Hugepages::kNone ||
                                      memory.hugepages == config::Hugepages::kPrefer2Mi;
    ArenaLeft left;
    left.path = arena_path(memory, huge);
    struct stat file {};
    if (!looked_at || ::lstat(left.path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) continue;
    left.page_bytes = huge ? huge_page_bytes(memory.hugepages) : 4096;
    left.wanted_bytes = round_up(memory.size_bytes, left.page_bytes);
    left.bytes = static_cast<std::uint64_t>(file.st_size);
    // st_blocks counts units of 512 bytes on every file system.
    left.present_bytes = static_cast<std::uint64_t>(file.st_blocks) * 512;
    left.owner = file.st_uid;
    return left;
  }
  return std::nullopt;
}

Result<ArenaFile> open_arena(const config::MemoryConfig& memory, const ArenaLeft& left,
                             std::uint64_t touched_bytes) {
  const Result<NumaPlan> plan = plan_numa(memory.numa, read_numa_facts(""));
  if (!plan.ok()) return plan.status();
  ArenaFile arena;
  arena.path = left.path;
  arena.page_bytes = left.page_bytes;
  arena.fd = Fd(::open(left.path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!arena.fd.valid()) return Status::from_errno(errno, "open arena " + left.path);
  if (Status status = take_file(left.path, left.bytes, arena); !status.ok()) return status;
  if (Status status = bind_arena(*plan, arena); !status.ok()) return status;
  look_for_other_nodes(*plan, touched_bytes, arena);
  if (memory.hugepages != config::Hugepages::kNone && left.page_bytes == 4096)
    arena.fallback = "4 KiB pages: the pages of an earlier larderd are kept";
  return arena;
}

}  // namespace larder::memory

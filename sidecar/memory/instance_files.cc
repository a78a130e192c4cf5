#include "sidecar/memory/instance_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "sidecar/base/log.h"

namespace larder::memory {
namespace {

std::string prefix(const config::MemoryConfig& memory) {
  return memory.directory + "/" + memory.shm_name;
}

// Fewer than 20 digits fit 64 bits, so std::stoull below cannot throw.
bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 20 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

Status unlink_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT)
    return Status::from_errno(errno, "unlink old " + path);
  return {};
}

// Whether a living larderd with the same name and another memory.directory has locked this arena.
bool in_use(const std::string& arena) {
  const Fd fd(::open(arena.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

// Removes the arena of a killed larderd from before memory.hugepages was set to none. A failure
// does not stop the start, because this larderd needs no huge pages.
void remove_unused_huge_arena(const config::MemoryConfig& memory) {
  const std::string path = arena_path(memory, true);
  // flock() tells: the owner file protects a name in one memory.directory only.
  if (in_use(path)) return;
  if (Status status = unlink_file(path); !status.ok()) base::log_warning(status.text());
}

// The error for a file of the name that cannot be opened: another user owns the file, or the
// directory is not writable.
Status cannot_own(const config::MemoryConfig& memory, const std::string& path, int error) {
  if (error == EACCES && ::access(path.c_str(), F_OK) == 0)
    return {Code::kPermissionDenied, path +
                                         " belongs to another user's larderd: give this one "
                                         "another pool, or memory.shm_name and socket"};
  return Status::from_errno(error, "memory.directory " + memory.directory +
                                       " must be a folder that larderd may write in");
}

}  // namespace

// Engines of the dead larderd still have the index mapped, read-only. They see `dead` within half a
// second, and attach to the new larderd.
std::uint64_t retire_index(const std::string& path, protocol::IndexRetirement end) {
  const Fd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  struct stat info {};
  if (!fd.valid() || ::fstat(fd.get(), &info) != 0 ||
      info.st_size < static_cast<off_t>(sizeof(protocol::IndexHeader)))
    return 0;
  Result<Mapping> mapping =
      Mapping::map_shared(fd, sizeof(protocol::IndexHeader), PROT_READ | PROT_WRITE, path);
  if (!mapping.ok()) return 0;
  auto* header = reinterpret_cast<protocol::IndexHeader*>(mapping->data());
  if (header->magic != protocol::kIndexMagic) return 0;
  header->dead.store(static_cast<std::uint64_t>(end), std::memory_order_seq_cst);
  const std::uint64_t mark = header->generation_high_water.load(std::memory_order_acquire);
  return mark <= protocol::kMaxGeneration / 2
             ? mark
             : 0;  // a damaged mark must not use up all generations
}

std::string arena_path(const config::MemoryConfig& memory, bool hugepages) {
  return (hugepages ? memory.hugepage_directory + "/" + memory.shm_name : prefix(memory)) +
         ".arena";
}
Result<std::vector<NumberedFile>> numbered_files(const config::MemoryConfig& memory,
                                                 const std::string& kind) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(memory.directory.c_str()),
                                                      &::closedir);
  if (directory == nullptr)
    return Status::from_errno(errno, "memory.directory " + memory.directory);
  const std::string start = memory.shm_name + "." + kind + ".";
  std::vector<NumberedFile> files;
  while (const dirent* entry = ::readdir(directory.get())) {
    const std::string name = entry->d_name;
    if (name.starts_with(start) && is_number(name.substr(start.size())))
      files.push_back({std::stoull(name.substr(start.size())), memory.directory + "/" + name});
  }
  return files;
}

// An index is built under this name and renamed when whole. A start that finds the name removes the
// file as incomplete.
std::string fresh_index_path(const config::MemoryConfig& memory, std::uint64_t epoch) {
  return prefix(memory) + ".fresh." + std::to_string(epoch);
}
std::string namespaces_path(const config::MemoryConfig& memory, std::uint64_t epoch) {
  return prefix(memory) + ".namespaces." + std::to_string(epoch);
}
std::string index_path(const config::MemoryConfig& memory, std::uint64_t epoch) {
  return prefix(memory) + ".index." + std::to_string(epoch);
}
std::string lock_path(const config::MemoryConfig& memory, std::uint32_t session) {
  return prefix(memory) + ".lock." + std::to_string(session);
}

Result<InstanceLock> lock_instance(const config::MemoryConfig& memory) {
  const std::string path = prefix(memory) + ".owner";
  // Three attempts: each failure needs another larderd that ends in the same microseconds.
  for (int attempt = 0; attempt < 3; ++attempt) {
    Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd.valid()) return cannot_own(memory, path, errno);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return Status::from_errno(errno, "flock " + path);
      break;
    }
    // A larderd that ended between open() and flock() has unlinked the file: a lock on it protects
    // no name.
    struct stat info {};
    if (::fstat(fd.get(), &info) == 0 && info.st_nlink != 0)
      return InstanceLock(std::move(fd), path);
  }
  return Status(Code::kAlreadyExists,
                "another larderd is running as '" + memory.shm_name + "' in " + memory.directory +
                    ": stop it, or give this one another pool, or memory.shm_name and socket");
}

Result<std::uint64_t> remove_old_files(const config::MemoryConfig& memory) {
  std::uint64_t highest = 0;
  std::vector<std::string> old;
  for (const char* kind : {"lock", "fresh", "namespaces", "index"}) {
    const Result<std::vector<NumberedFile>> files = numbered_files(memory, kind);
    if (!files.ok()) return files.status();
    for (const NumberedFile& file : *files) {
      if (std::string_view(kind) == "index")
        // Generations of the new larderd begin above: a chunk of the old arena can never look
        // valid.
        highest = std::max(highest, retire_index(file.path, protocol::IndexRetirement::kGone));
      old.push_back(file.path);
    }
  }
  const bool any = !old.empty();
  old.push_back(arena_path(memory, false));
  if (memory.hugepages != config::Hugepages::kNone)
    old.push_back(arena_path(memory, true));
  else
    remove_unused_huge_arena(memory);
  for (const std::string& path : old)
    if (Status status = unlink_file(path); !status.ok()) return status;
  if (any) base::log_info("cold start: removed the arena and index of an earlier larderd");
  return highest;
}

}  // namespace larder::memory

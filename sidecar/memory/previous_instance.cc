#include "sidecar/memory/previous_instance.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "sidecar/base/log.h"
#include "sidecar/base/sizes.h"
#include "sidecar/memory/instance_files.h"

namespace larder::memory {
namespace {

// A file that this larderd cannot take over: an error, unless memory.on_mismatch is `replace`.
Status mismatch(const config::MemoryConfig& memory, PreviousInstance& previous,
                const std::string& what, const std::string& remedy) {
  // Without the index the start is cold; `why` goes to the log.
  previous.index.reset();
  previous.why = what;
  if (memory.on_mismatch == config::OnMismatch::kReplace) return {};
  return {Code::kFailedPrecondition,
          what + ": " + remedy + ", or set memory.on_mismatch: replace to start cold"};
}

Status belongs_to_another(const config::MemoryConfig& memory, PreviousInstance& previous,
                          const std::string& path, std::uint32_t owner) {
  return mismatch(memory, previous, path + " belongs to the user of id " + std::to_string(owner),
                  "run larderd as that user, or set another pool or memory.shm_name");
}

// Maps the newest living index, if any.
Status find_index(const config::MemoryConfig& memory, PreviousInstance& previous) {
  Result<std::vector<NumberedFile>> files = numbered_files(memory, "index");
  if (!files.ok()) return files.status();
  // Several indexes exist after a kill during a warm start. The newest complete one counts.
  std::sort(files->begin(), files->end(),
            [](const NumberedFile& a, const NumberedFile& b) { return a.number > b.number; });
  for (const NumberedFile& file : *files) {
    struct stat info {};
    // Files of this form may be links or empty files of others in /dev/shm. Such files are no
    // index.
    if (::lstat(file.path.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0)
      continue;
    if (info.st_uid != ::geteuid())
      return belongs_to_another(memory, previous, file.path, info.st_uid);
    const Fd fd(::open(file.path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (!fd.valid()) return Status::from_errno(errno, "open index " + file.path);
    const auto bytes = static_cast<std::size_t>(info.st_size);
    Result<Mapping> mapping = Mapping::map_shared(fd, bytes, PROT_READ | PROT_WRITE, file.path);
    if (!mapping.ok()) return mapping.status();
    Result<store::PreviousIndex> index =
        store::PreviousIndex::open(mapping->data(), mapping->size());
    if (index.status().code() == Code::kNotFound) continue;
    if (index.status().code() == Code::kUnsupported)
      return mismatch(memory, previous, file.path + ": " + index.status().text(),
                      "start the larderd that wrote the file");
    // A damaged index makes the start cold. An older index does not know the slots that the newer
    // larderd has granted.
    previous.why = index.ok() ? "" : file.path + ": " + index.status().text();
    if (!index.ok()) return {};
    previous.index = *index;
    previous.mapping = std::move(*mapping);
    previous.index_path = file.path;
    previous.names_path = namespaces_path(memory, file.number);
    previous.names = NamespaceJournal::read(previous.names_path);
    return {};
  }
  return {};
}

// REQUIRES: an index was found.
Status check_arena(const config::MemoryConfig& memory, PreviousInstance& previous) {
  previous.arena = find_arena(memory);
  // The arena must be the one that the index describes, or every offset would be wrong.
  if (!previous.arena || previous.arena->bytes != previous.index->arena_bytes()) {
    previous.why = previous.arena ? previous.arena->path + " has another size than the index says"
                                  : "the arena of " + previous.index_path + " is gone";
    previous.index.reset();
    return {};
  }
  const ArenaLeft& arena = *previous.arena;
  if (arena.owner != ::geteuid())
    return belongs_to_another(memory, previous, arena.path, arena.owner);
  if (previous.index->touched_bytes() > arena.present_bytes) {  // granted slots may lack pages too
    previous.why = arena.path + " has " + base::mib(arena.present_bytes) +
                   " present, the index expects " + base::mib(previous.index->touched_bytes());
    previous.index.reset();
    return {};
  }
  if (arena.bytes == arena.wanted_bytes) return {};
  const std::string what = arena.path + " has " + base::mib(arena.bytes) +
                           " and memory.size asks for " + base::mib(arena.wanted_bytes);
  // Engines have the arena mapped in the old size. A new arena under living engines would leave
  // them without a cache.
  if (previous.sessions.empty())
    return mismatch(memory, previous, what, "set memory.size back");  // mutation: resize-in-use
  std::string sessions;
  for (const auto& [number, lock] : previous.sessions)
    sessions += (sessions.empty() ? "" : ", ") + std::to_string(number);
  return {Code::kFailedPrecondition, what + ", while engines use it (sessions " + sessions +
                                         "): set memory.size back, or stop these engines first"};
}

// A warm start needs room for a second index: both exist for a moment.
void check_room(const config::MemoryConfig& memory, std::uint64_t index_bytes,
                PreviousInstance& previous) {
  struct statvfs info {};
  if (::statvfs(memory.directory.c_str(), &info) != 0 || info.f_blocks == 0) return;
  const std::uint64_t free = static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  if (free >= index_bytes) return;
  previous.index.reset();
  previous.why = "memory.directory " + memory.directory + " has " + base::mib(free) +
                 " free, and a second index needs " + base::mib(index_bytes);
}

Status find_sessions(const config::MemoryConfig& memory, PreviousInstance& previous) {
  const Result<std::vector<NumberedFile>> files = numbered_files(memory, "lock");
  if (!files.ok()) return files.status();
  for (const NumberedFile& file : *files) {
    if (file.number >= UINT32_MAX / 2) continue;  // not written by larderd
    Result<LockFile> lock = LockFile::open(file.path);
    if (!lock.ok()) return lock.status();
    // The engine's POSIX lock is gone once its process has ended, also in another container.
    const bool held = lock->held();
    lock->set_kept(true);  // an error of the start must not unlink the file
    const auto number = static_cast<std::uint32_t>(file.number);
    if (held)
      previous.sessions.emplace(number, std::move(*lock));
    else if (lock->device_writes() || lock->sidecar_writes())  // mutation: gpu-restart
      previous.device_writing.emplace(number, std::move(*lock));
  }
  return {};
}

}  // namespace

Result<PreviousInstance> find_previous_instance(const config::MemoryConfig& memory,
                                                std::uint64_t index_bytes) {
  PreviousInstance previous;
  if (Status status = find_sessions(memory, previous); !status.ok()) return status;
  if (Status status = find_index(memory, previous); !status.ok()) return status;
  if (previous.index)
    if (Status status = check_arena(memory, previous); !status.ok()) return status;
  if (previous.index) check_room(memory, index_bytes, previous);
  if (!previous.why.empty()) base::log_warning("cold start: " + previous.why);
  return previous;
}

Status remove_leftovers(const config::MemoryConfig& memory, const PreviousInstance& previous) {
  for (const char* kind : {"fresh", "index", "namespaces", "lock"}) {
    const Result<std::vector<NumberedFile>> files = numbered_files(memory, kind);
    if (!files.ok()) return files.status();
    for (const NumberedFile& file : *files) {
      const std::string_view name = kind;
      if (file.path == previous.index_path || file.path == previous.names_path) continue;
      if (name == "lock" && previous.sessions.contains(static_cast<std::uint32_t>(file.number)))
        continue;
      // The lock files of possible writers stay: EndedSessions watches them until the writers are
      // gone.
      if (name == "lock" &&
          previous.device_writing.contains(static_cast<std::uint32_t>(file.number)))
        continue;
      if (name == "index") retire_index(file.path, protocol::IndexRetirement::kSuperseded);
      ::unlink(file.path.c_str());
    }
  }
  return {};
}

}  // namespace larder::memory

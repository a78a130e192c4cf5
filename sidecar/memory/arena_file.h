// The arena: a named file of fixed size on tmpfs or hugetlbfs, mapped by the sidecar and by every engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shim/base/fd.h"
#include "sidecar/config/config.h"

namespace larder::memory {

struct ArenaFile {
  Fd fd;          // locked (flock) while this larderd lives
  Fd to_engines;  // opened apart, so that no engine keeps the lock
  Mapping mapping;
  std::uint64_t page_bytes = 4096;
  std::string path;
  std::string numa;           // nodes that it is bound to, in words; "none"
  std::string numa_fallback;  // why it is not bound although that was wanted; else empty
  std::string fallback;       // why it stands on normal pages although huge ones were preferred; else empty
};

// Makes it, bound to its NUMA nodes; nothing is touched yet. `other_bytes` is what else the directory must hold. kResourceExhausted:
// too little space or too few huge pages, with figures and the remedy. kInvalidArgument: memory.numa names no node of this machine. REQUIRES: no file of that name.
Result<ArenaFile> create_arena(const config::MemoryConfig& memory, std::uint64_t other_bytes);

// Where an earlier larderd of this configuration left its arena, and what is asked of it. Nothing where there is none.
struct ArenaLeft {
  std::string path;
  std::uint64_t page_bytes = 4096;
  std::uint64_t wanted_bytes = 0;  // by the configuration
  std::uint64_t bytes = 0;         // that the file has
  std::uint64_t present_bytes = 0;
  std::uint32_t owner = 0;  // uid
};
std::optional<ArenaLeft> find_arena(const config::MemoryConfig& memory);
// Opens it again, as it stands; its first `touched_bytes` are there, on the nodes that the earlier larderd took. kAlreadyExists:
// another larderd has it.
Result<ArenaFile> open_arena(const config::MemoryConfig& memory, const ArenaLeft& left, std::uint64_t touched_bytes);

}  // namespace larder::memory

// The arena: a named file of fixed size on tmpfs or hugetlbfs, mapped by larderd and by every
// engine. The file is never truncated and never punched: an engine would die of SIGBUS.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shim/base/fd.h"
#include "sidecar/config/config.h"

namespace larder::memory {

struct ArenaFile {
  Fd fd;          // locked (flock) while this larderd lives
  Fd to_engines;  // a second open file: an engine must not keep the lock
  Mapping mapping;
  std::uint64_t page_bytes = 4096;
  std::string path;
  std::string numa;           // the nodes of the binding in words, or "none"
  std::string numa_fallback;  // why a wanted binding is missing; else empty
  std::string fallback;       // why preferred huge pages are missing; else empty
};

// Makes the arena and binds it to its NUMA nodes; no page is touched yet. `other_bytes`: further
// bytes that the directory must have room for. kResourceExhausted: too little space or too few huge
// pages, with figures and the remedy. kInvalidArgument: memory.numa names no node of this machine.
// REQUIRES: no file of that name exists.
Result<ArenaFile> create_arena(const config::MemoryConfig& memory, std::uint64_t other_bytes);

// The arena of an earlier larderd with this configuration, and the wanted size.
struct ArenaLeft {
  std::string path;
  std::uint64_t page_bytes = 4096;
  std::uint64_t wanted_bytes = 0;  // of the configuration
  std::uint64_t bytes = 0;         // of the file
  std::uint64_t present_bytes = 0;
  std::uint32_t owner = 0;  // uid
};
std::optional<ArenaLeft> find_arena(const config::MemoryConfig& memory);
// Opens the arena without changes. The first `touched_bytes` are present, on the nodes of the
// earlier larderd. kAlreadyExists: another larderd has the arena.
Result<ArenaFile> open_arena(const config::MemoryConfig& memory, const ArenaLeft& left,
                             std::uint64_t touched_bytes);

}  // namespace larder::memory

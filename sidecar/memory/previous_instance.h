// PreviousInstance: the files of an earlier larderd with the same name. The start takes the files
// over (warm), replaces them (cold), or refuses to start.
//
// Refused unless memory.on_mismatch is `replace`: another arena size, another owner, an unknown
// format. Another size is always refused while engines use the arena. Cold: damage, a known
// older format, a missing arena, no room for a second index.
//
// Read once, at start. Thread-compatible; owned by the loop afterwards.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sidecar/config/config.h"
#include "sidecar/memory/arena_file.h"
#include "sidecar/memory/lock_file.h"
#include "sidecar/memory/namespace_journal.h"
#include "sidecar/store/previous_index.h"

namespace larder::memory {

struct PreviousInstance {
  // Empty: the start is cold. `why` gives the reason if files were there.
  std::optional<store::PreviousIndex> index;
  std::string why;
  Mapping mapping;  // of the index
  std::string index_path, names_path;
  std::optional<ArenaLeft> arena;
  std::vector<NamespaceJournal::Record> names;
  // Sessions with a living process, by number, with their locked lock files.
  std::map<std::uint32_t, LockFile> sessions;
  // Sessions without a process, but with a GPU that may still write for kDeviceSettlingMs.
  std::map<std::uint32_t, LockFile> device_writing;
};

// An error names the file that is refused, and the remedy. `index_bytes`: the size of the new
// index, which exists beside the earlier index for a moment. REQUIRES: lock_instance().
Result<PreviousInstance> find_previous_instance(const config::MemoryConfig& memory,
                                                std::uint64_t index_bytes);

// Removes the files that a warm start does not use: older indexes (their engines attach again),
// other journals, and lock files without a session. REQUIRES: previous.index.
Status remove_leftovers(const config::MemoryConfig& memory, const PreviousInstance& previous);

}  // namespace larder::memory

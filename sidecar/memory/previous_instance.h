// PreviousInstance: what an earlier larderd of the same name left behind: to go on with, to be replaced, or a reason not to start.
//
// Looked for once, at start. Thread-compatible; then owned by the loop.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sidecar/config/config.h"
#include "sidecar/memory/arena_file.h"
#include "sidecar/memory/namespace_journal.h"
#include "sidecar/memory/small_regions.h"
#include "sidecar/store/previous_index.h"

namespace larder::memory {

struct PreviousInstance {
  // Nothing: the start is cold, and `why` says why where there was something.
  std::optional<store::PreviousIndex> index;
  std::string why;
  Mapping mapping;  // of the index
  std::string index_path, names_path;
  std::optional<ArenaLeft> arena;
  std::vector<NamespaceJournal::Record> names;
  // Its sessions whose process lives, by number, with the lock file that says so.
  std::map<std::uint32_t, LockFile> sessions;
  // The same of those whose process is gone, and whose device may still write for a moment.
  std::map<std::uint32_t, LockFile> settling;
};

// An error names the file that this larderd cannot go on with and must not replace (memory.on_mismatch). REQUIRES: own_name().
// `index_bytes`: what the new index will need beside the earlier one; without that room the start is cold.
Result<PreviousInstance> find_previous_instance(const config::MemoryConfig& memory, std::uint64_t index_bytes);

// What a warm start leaves unused: older indexes (their engines attach anew), journals and lock files of nobody. REQUIRES: the life has
// an index.
Status remove_leftovers(const config::MemoryConfig& memory, const PreviousInstance& life);

}  // namespace larder::memory

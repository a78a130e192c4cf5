// The files of one larderd: DIRECTORY/NAME.owner (locked while it lives), .arena, .index.EPOCH, .lock.SESSION.
//
// Functions here run once, at start. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>

#include "shim/protocol/fd.h"
#include "sidecar/config/config.h"

namespace larder::ipc {

// Takes NAME for this process until the descriptor is closed. kAlreadyExists: another larderd that lives has it.
Result<Fd> own_name(const config::MemoryConfig& memory);

// Cold start: marks old indexes dead, so that engines that still map them attach anew, then unlinks them, the old arena and the
// lock files. Returns the highest generation that any of them ever gave, or 0. REQUIRES: own_name().
Result<std::uint64_t> remove_old_files(const config::MemoryConfig& memory);

std::string arena_path(const config::MemoryConfig& memory, bool hugepages);
std::string index_path(const config::MemoryConfig& memory, std::uint64_t epoch);
std::string lock_path(const config::MemoryConfig& memory, std::uint32_t session);

}  // namespace larder::ipc

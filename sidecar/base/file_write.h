// Writes a whole file, in as many calls as the kernel needs. A limit (full file system, quota,
// `ulimit -f`) first cuts a write short; the next call fails and names the limit.
//
// Thread-safe for different files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "shim/base/status.h"

namespace larder::base {

// Writes `bytes` at the position of the file, or at the end of a file that is open with O_APPEND.
// After a failure the file may hold a part of the bytes. Errors as of file_failure(). `what`: the
// call and its file, "write /dev/shm/x.lock".
Status write_all(int fd, std::span<const std::byte> bytes, const std::string& what);
// The same from `offset` on.
Status write_all_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset,
                    const std::string& what);

}  // namespace larder::base

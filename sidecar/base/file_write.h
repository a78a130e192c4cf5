// Writing a file, in as many calls as the kernel wants. A limit (full file system, quota, `ulimit -f`) first cuts a write short; the call after
// the short write fails and names the limit.
//
// Thread-safe where the callers' files differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "shim/base/status.h"

namespace larder::base {

// All of `bytes` at the file's position, or at its end where it is open with O_APPEND. On a failure a part of them may be in the file.
// Errors as of file_failure(). `what`: the call and its file, "write /dev/shm/x.lock".
Status write_all(int fd, std::span<const std::byte> bytes, const std::string& what);
// The same from `offset` on.
Status write_all_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset, const std::string& what);

}  // namespace larder::base

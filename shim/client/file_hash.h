// hash_file(): XXH3-128 over the whole content of one file, for the identity of a model's weights.
//
// Reads with pread() into one buffer of 1 MiB, so that the page cache is used and filled as by any
// other reader. A file that is not on a local disk may lie behind a network that others need: the
// bytes of such a file that the page cache does not hold are counted before the first read, and a
// file over the limit is not read at all. The kernel tells which bytes it holds only to the owner
// of a file and to processes that may write it; for all others every byte counts. Blocking and
// stateless: call it from a thread that may wait, from as many threads as you like.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "shim/base/status.h"

namespace larder::client {

// Names one state of one file: a file whose content changes gets another ctime.
struct FileStamp {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;  // since the epoch, as is ctime_ns
  std::int64_t ctime_ns = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

struct HashLimits {
  std::uint64_t uncached_bytes =
      UINT64_MAX;          // of a file: how many bytes that are not in the page cache may be read
  bool local_too = false;  // the limit holds for local file systems as well
};

struct FileDigest {
  std::array<std::uint8_t, 16> digest{};  // XXH3-128, high byte first, as `xxh128sum` prints it
  FileStamp stamp;
  bool local = false;  // the file system is known to be local: no network behind a read
  // Counted before the first read; 0 where the limit does not hold.
  std::uint64_t uncached_bytes = 0;
};

// `stop`, where it is not null, is read between two reads of 1 MiB: any value but 0 ends the call.
// Another thread may set it. Errors:
//   kNotFound, kPermissionDenied, kInternal  open() or a read failed
//   kInvalidArgument                         the path names no regular file
//   kUnavailable                             the file changed during the read: hash it again
//   kOutOfRange                              more bytes than `limits` allows are not in the page
//                                            cache; none was read
//   kDeadlineExceeded                        `stop` was set
Result<FileDigest> hash_file(const char* path, const HashLimits& limits,
                             const std::int32_t* stop = nullptr);

}  // namespace larder::client

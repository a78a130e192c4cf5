#include "sidecar/memory/index_file.h"

#include <fcntl.h>

#include <utility>

#include "sidecar/base/file_limit.h"
#include "sidecar/base/sizes.h"

namespace larder::memory {

// Engines get the read-only descriptor. O_EXCL and O_NOFOLLOW: the directory may be writable by
// others.
Result<IndexFile> IndexFile::create(const std::string& path, std::uint64_t size_bytes) {
  IndexFile index;
  const Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return Status::from_errno(errno, "create index " + path);
  index.path = path;
  // Engines get this descriptor: the index is read-only for them, so a broken engine cannot damage
  // the cache of others.
  index.read_only = Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!index.read_only.valid()) return Status::from_errno(errno, "open index " + path);
  // Allocates every page now. A page that the kernel cannot allocate later, in a full directory,
  // would be a SIGBUS in larderd or in an engine during a look-up.
  if (const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(size_bytes));
      error != 0) {
    ::unlink(path.c_str());
    return base::file_failure(error, "allocate " + base::mib(size_bytes) + " for index " + path);
  }
  Result<Mapping> mapping = Mapping::map_shared(fd, size_bytes, PROT_READ | PROT_WRITE, path);
  if (!mapping.ok()) return mapping.status();
  index.mapping = std::move(*mapping);
  return index;
}

}  // namespace larder::memory

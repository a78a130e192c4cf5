#include "operator/reconcile/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

namespace larder::reconcile {

// An anonymous file (memfd_create): nothing on a disk, and the kernel frees the bytes with the last
// descriptor. The path works for this process only.
Result<MemoryFile> MemoryFile::of(std::string_view bytes) {
  Fd fd(::memfd_create("larder-secret", MFD_CLOEXEC));
  if (!fd.valid()) return Status::from_errno(errno, "memfd_create");
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t wrote = ::write(fd.get(), bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return Status::from_errno(errno, "write to memory");
    done += static_cast<std::size_t>(wrote);
  }
  std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  return MemoryFile(std::move(fd), std::move(path));
}

}  // namespace larder::reconcile

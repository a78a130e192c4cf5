#include "sidecar/base/file_write.h"

#include <unistd.h>

#include <cerrno>

#include "sidecar/base/file_limit.h"

namespace larder::base {
namespace {

// One loop for write() and pwrite(). Near a limit the kernel first writes a part and reports
// success. Only the next call reports ENOSPC, EDQUOT or EFBIG, so the loop asks once more.
template <typename Write>
Status write_parts(std::span<const std::byte> bytes, const std::string& what, const Write& write) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = write(bytes.subspan(done), done);
    if (count < 0 && errno == EINTR) continue;
    // A write of 0 bytes sets no errno and would repeat for ever: EIO stands in for the missing
    // reason.
    if (count <= 0) return file_failure(count < 0 ? errno : EIO, what);
    done += static_cast<std::size_t>(count);
  }
  return {};
}

}  // namespace

Status write_all(int fd, std::span<const std::byte> bytes, const std::string& what) {
  return write_parts(bytes, what, [fd](std::span<const std::byte> part, std::size_t) {
    return ::write(fd, part.data(), part.size());
  });
}

Status write_all_at(int fd, std::span<const std::byte> bytes, std::uint64_t offset,
                    const std::string& what) {
  return write_parts(bytes, what, [fd, offset](std::span<const std::byte> part, std::size_t done) {
    // The place comes from `offset`, because two threads may share the position of the descriptor.
    return ::pwrite(fd, part.data(), part.size(), static_cast<off_t>(offset + done));
  });
}

}  // namespace larder::base

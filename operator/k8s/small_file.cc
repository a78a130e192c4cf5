#include "operator/k8s/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "shim/base/fd.h"

namespace larder::k8s {

Result<std::string> read_small_file(const std::string& file) {
  const Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe must not block
  if (!fd.valid()) return Status::from_errno(errno, file);
  // One byte more than allowed is read, so a file of the full size differs from a longer one.
  std::string text(kMostFileBytes + 1, '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = ::read(fd.get(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::from_errno(errno, file);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  if (have > kMostFileBytes) return Status(Code::kOutOfRange, file + " is longer than 1 MiB");
  text.resize(have);
  text.shrink_to_fit();
  return text;
}

}  // namespace larder::k8s

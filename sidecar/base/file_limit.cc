#include "sidecar/base/file_limit.h"

#include <sys/resource.h>

#include <cerrno>
#include <system_error>

namespace larder::base {

// EFBIG has two causes with different remedies. The limit of this process tells them apart.
std::string file_error(int err) {
  if (err != EFBIG) return std::generic_category().message(err);
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return "the file system takes no file of that size";
  // The three remedies are those of a shell, of systemd and of Docker, in this order.
  return "this process may write no file over " + std::to_string(limit.rlim_cur >> 10) +
         " KiB; raise its limit of file size (ulimit -f unlimited, LimitFSIZE=infinity in a unit "
         "of systemd, docker run --ulimit fsize=-1)";
}

Status file_failure(int err, const std::string& what) {
  if (err != EFBIG) return Status::from_errno(err, what);
  return {Code::kResourceExhausted, what + ": " + file_error(err)};
}

}  // namespace larder::base

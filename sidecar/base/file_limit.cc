#include "sidecar/base/file_limit.h"

#include <sys/resource.h>

#include <cerrno>

#include "sidecar/base/sizes.h"

namespace larder::base {

Status file_failure(int err, const std::string& what) {
  if (err != EFBIG) return Status::from_errno(err, what);
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return {Code::kResourceExhausted, what + ": the file system takes no file of that size"};
  return {Code::kResourceExhausted,
          what + ": larderd may write no file over " + std::to_string(limit.rlim_cur >> 10) +
              " KiB; raise its limit of file size (ulimit -f unlimited, LimitFSIZE=infinity in a unit of "
              "systemd, docker run --ulimit fsize=-1)"};
}

}  // namespace larder::base

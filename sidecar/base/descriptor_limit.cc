#include "sidecar/base/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

#include "sidecar/base/log.h"

namespace larder::base {

void raise_descriptor_limit(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t allowed = std::min<rlim_t>(limit.rlim_max, wanted);
  if (limit.rlim_cur >= allowed) return;
  limit.rlim_cur = allowed;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    log_warning("the limit of open files could not be raised");
}

}  // namespace larder::base

#include "sidecar/base/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

#include "sidecar/base/log.h"

namespace larder::base {

// The usual soft limit of 1,024 is a relic of select(), which this project does not use. The hard
// limit stays the administrator's decision.
void raise_descriptor_limit(std::uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t allowed = std::min<rlim_t>(limit.rlim_max, wanted);
  if (limit.rlim_cur >= allowed) return;
  limit.rlim_cur = allowed;
  // A start without the raise still works for fewer sessions and connections, so a failure only
  // warns.
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    log_warning("the limit of open files could not be raised");
}

}  // namespace larder::base

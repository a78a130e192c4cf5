// `larderctl top`: asks larderd again and again and shows what changes. It outlives larderd: while none answers it says so, and
// goes on when one is back. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>

#include "shim/base/status.h"

namespace larder::ctl {

// With `iterations` 0 until a signal ends the process. Otherwise that many screens of plain text, the first after one interval, so
// that each has rates; an error when no larderd answered for the last.
Status watch(const std::string& admin_socket, double interval_seconds, std::uint64_t iterations);

}  // namespace larder::ctl

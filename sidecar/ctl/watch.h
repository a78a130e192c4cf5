// The loop of `larderctl top`: asks larderd at each interval and draws a screen. While no larderd
// answers, `top` shows the reason and keeps asking. Thread-compatible.
#pragma once

#include <cstdint>
#include <string>

#include "shim/base/status.h"

namespace larder::ctl {

// `iterations` 0: runs until a signal ends the process. Else prints that many screens of plain
// text, the first after one interval, so that each screen has rates. An error: no larderd answered
// for the last screen.
Status watch(const std::string& admin_socket, double interval_seconds, std::uint64_t iterations);

}  // namespace larder::ctl

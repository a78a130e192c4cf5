// The screen of `larderctl status`: whether the cache helps, and the content of larderd. Pure;
// thread-safe.
#pragma once

#include <string>

#include "sidecar/ctl/snapshot.h"

namespace larder::ctl {

std::string status_screen(const Snapshot& now);

}  // namespace larder::ctl

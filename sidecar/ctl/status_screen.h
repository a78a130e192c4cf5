// The screen of `larderctl status`: is it helping, and what does larderd hold. Pure; thread-safe.
#pragma once

#include <string>

#include "sidecar/ctl/snapshot.h"

namespace larder::ctl {

std::string status_screen(const Snapshot& now);

}  // namespace larder::ctl

// The screen of `larderctl peers`: the larderd that this larderd asks, and what it serves to
// others. Pure; thread-safe.
#pragma once

#include <string>

#include "sidecar/ctl/snapshot.h"

namespace larder::ctl {

// Empty without peers.
std::string peers_lines(const Snapshot& now);
std::string peers_screen(const Snapshot& now);

}  // namespace larder::ctl

// Gives folders that a node or the kubelet made as root to the user of larderd. Thread-compatible;
// needs no larderd.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>

#include "shim/base/status.h"
#include "sidecar/ctl/arguments.h"

namespace larder::ctl {

// Gives each folder with its content to this user and group. A folder with the right owner is
// skipped. The target of a link keeps its owner. The next call finishes an interrupted folder.
// Needs CAP_CHOWN, and CAP_DAC_READ_SEARCH for private folders of other users.
Status init_volumes(uid_t user, gid_t group, std::span<const std::string> folders);

// The command: `init-volumes UID:GID FOLDER...`.
Result<std::string> init_volumes_command(const Arguments& arguments);

}  // namespace larder::ctl

// Folders that a node or the kubelet made as root's, given to larderd's user. Thread-compatible; needs no larderd.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>

#include "shim/base/status.h"
#include "sidecar/ctl/arguments.h"

namespace larder::ctl {

// Gives each folder and all in it to this user and group: nothing where the folder is theirs already. What a link leads to stays whose it is.
// One that was interrupted is done whole by the next. Needs CAP_CHOWN, and CAP_DAC_READ_SEARCH for what another user keeps to itself.
Status init_volumes(uid_t user, gid_t group, std::span<const std::string> folders);

// The command: `init-volumes UID:GID FOLDER...`.
Result<std::string> init_volumes_command(const Arguments& arguments);

}  // namespace larder::ctl

// Copies the files of the shim to the place where an engine's container looks for them.
// Thread-compatible; needs no larderd.
#pragma once

#include <string>

#include "shim/base/status.h"
#include "sidecar/ctl/arguments.h"

namespace larder::ctl {

// Where the container image keeps the payload: python/larder/, with liblarder.so inside.
inline constexpr const char* kImagePayload = "/payload";

// Copies the folder `from` into the existing folder `to` (the mount of a volume). Each entry of
// `from` appears whole and replaces an earlier entry of the same name, or does not appear at all.
// Other entries of `to` stay. Files are readable by every user, because the engine runs as another
// user. A failed copy leaves no staged file.
Status install_payload(const std::string& from, const std::string& to);

// The command `install-payload DIR`. Returns the output.
Result<std::string> install_payload_command(const Arguments& arguments);

}  // namespace larder::ctl

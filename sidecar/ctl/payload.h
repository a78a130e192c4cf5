// The shim's files, copied to where an engine's container will look for them. Thread-compatible; needs no larderd.
#pragma once

#include <string>

#include "shim/base/status.h"
#include "sidecar/ctl/arguments.h"

namespace larder::ctl {

// Where the container image keeps the payload: python/larder/, with liblarder.so inside.
inline constexpr const char* kImagePayload = "/payload";

// Copies the folder `from` into the folder `to`, which exists (a volume's mount), as whoever runs this. Each entry of `from` appears
// whole, in place of an earlier one of its name, or not at all; what else is in `to` stays. Files are readable by every user, since the
// engine is another one. On failure nothing of this copy is left.
Status install_payload(const std::string& from, const std::string& to);

// The command: `install-payload DIR`, and what it says.
Result<std::string> install_payload_command(const Arguments& arguments);

}  // namespace larder::ctl

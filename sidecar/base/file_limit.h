// Failures of calls that make a file longer, in words that a user knows. Thread-safe.
#pragma once

#include <string>

#include "shim/base/status.h"

namespace larder::base {

// As Status::from_errno(). EFBIG (kResourceExhausted) also names the limit of this process and the
// remedy. `what`: the call and its file.
// REQUIRES: SIGXFSZ is ignored, else the call ends the process.
Status file_failure(int err, const std::string& what);
// The same words without the call.
std::string file_error(int err);

}  // namespace larder::base

// The hashes for a command: words of the command line, and lines of a file. Thread-compatible.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shim/base/status.h"

namespace larder::ctl {

// Returns 32 lower-case hex digits for each hash. A longer hash (a whole SHA-256) is cut to the
// part in the key. `file`: one hash a line; "-" is standard input; empty lines and text behind a #
// are ignored. Errors name the wrong word or line. At most 1,048,576 hashes.
Result<std::vector<std::string>> read_hashes(std::span<const std::string> words,
                                             const std::optional<std::string>& file);

}  // namespace larder::ctl

// The hashes that a command is given: as words, and as lines of a file. Thread-compatible.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shim/base/status.h"

namespace larder::ctl {

// 32 lower-case hex digits each: of longer ones (a whole SHA-256) the part that is the key. `file`: one hash a line, "-" is
// standard input; empty lines and what follows a # do not count. Errors name the wrong word or the line. At most 1,048,576 hashes.
Result<std::vector<std::string>> read_hashes(std::span<const std::string> words, const std::optional<std::string>& file);

}  // namespace larder::ctl

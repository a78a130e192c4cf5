// Commands of a script that set variables whose values the script does not show: `read X`,
// `. FILE`, `eval "$X"`, `export $(cat FILE)`.
//
// Pure; thread-safe; never throws.
#pragma once

#include <string>
#include <vector>

#include "operator/webhook/inject/script_engines.h"

namespace larder::webhook {

// The variables that the command fills while the script runs: by read, mapfile, getopts, printf -v.
std::vector<std::string> read_by(const ScriptEngines::Command& command);

// The part of the command that may set any variable: "an eval", "the file /etc/env", "`export`";
// "": none.
std::string sets_any(const ScriptEngines::Command& command);

// The index of the command's name, after assignments.
std::size_t head_place(const std::vector<ScriptWord>& words);

}  // namespace larder::webhook

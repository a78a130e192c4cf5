// The entry point of larderctl: words in, exit status out. Output goes to standard output and
// standard error. Thread-compatible.
#pragma once

#include <span>
#include <string_view>

namespace larder::ctl {

// `words`: without the name of the program. Returns 0; 1 if larderd refused or is away; 2 for wrong
// usage. `backend check` returns 0, 1 for warnings, 2 if larderd cannot use the server.
int run(std::span<const std::string_view> words);

}  // namespace larder::ctl

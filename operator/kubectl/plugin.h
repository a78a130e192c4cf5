// `kubectl larder`: the program kubectl-larder, which kubectl finds in PATH. Asks the cluster by the user's own kubectl.
//
// The exit status: 0 all is well; 1 something is not (of backend check: warnings); 2 nothing could be found out, wrong usage, and of
// backend check: it cannot be used. Thread-compatible.
#pragma once

#include <span>
#include <string_view>

namespace larder::kubectl {

int run_plugin(std::span<const std::string_view> words);

}  // namespace larder::kubectl

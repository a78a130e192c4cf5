// `kubectl larder`: the program kubectl-larder, which kubectl finds in PATH. Asks the cluster
// through the user's kubectl.
//
// Exit status: 0: no problem. 1: a problem (backend check: warnings). 2: no result, wrong usage, or
// (backend check) an unusable backend. Thread-compatible.
#pragma once

#include <span>
#include <string_view>

namespace larder::kubectl {

int run_plugin(std::span<const std::string_view> words);

}  // namespace larder::kubectl

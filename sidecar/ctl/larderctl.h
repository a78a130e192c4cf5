// larderctl under its own name: words in, exit status out; what it has to say goes to standard output and error. Thread-compatible.
#pragma once

#include <span>
#include <string_view>

namespace larder::ctl {

// `words`: without the program's name.
int run(std::span<const std::string_view> words);

}  // namespace larder::ctl

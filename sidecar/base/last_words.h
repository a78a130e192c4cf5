// The last words of a process that ends at once. The process ends within a second even if standard
// error is a full pipe.
//
// Thread-safe; needs no memory and takes no lock.
#pragma once

#include <string_view>

namespace larder::base {

[[noreturn]] void end_with(std::string_view text, int exit_status);

// The same bound for the text of an uncaught exception (std::terminate). Once, in main().
void bound_terminate();

}  // namespace larder::base

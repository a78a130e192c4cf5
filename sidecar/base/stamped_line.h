// The line of standard error that log() would write now, with its end.
// For base itself. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "sidecar/base/log.h"

namespace larder::base {

std::string stamped_line(LogLevel level, std::string_view text, LogFields fields = {});

}  // namespace larder::base

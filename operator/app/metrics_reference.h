// The operator's part of docs/reference/metrics.md: --metrics-reference. Starts and ends threads of its own; asks nobody.
#pragma once

#include <string>

namespace larder::app {

std::string metrics_reference();

}  // namespace larder::app

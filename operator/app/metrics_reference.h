// --metrics-reference: the operator's part of docs/reference/metrics.md. Starts and joins threads;
// connects to no server.
#pragma once

#include <string>

namespace larder::app {

std::string metrics_reference();

}  // namespace larder::app

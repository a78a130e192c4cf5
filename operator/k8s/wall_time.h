// The time of day in the form of Kubernetes, for readers only. No decision may use it.
#pragma once

#include <string>

namespace larder::k8s {

// RFC 3339 in UTC with microseconds ("MicroTime"). Thread-safe.
std::string wall_time();

}  // namespace larder::k8s

// The time of day as Kubernetes writes it, for people: no decision may look at it.
#pragma once

#include <string>

namespace larder::k8s {

// RFC 3339 in UTC with microseconds ("MicroTime"). Thread-safe.
std::string wall_time();

}  // namespace larder::k8s

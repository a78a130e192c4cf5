// The meaning of the arguments in this cluster: the namespace, and the limit on asked larderds.
// Thread-compatible.
#pragma once

#include <cstddef>
#include <string>

#include "operator/kubectl/arguments.h"
#include "operator/kubectl/cluster.h"

namespace larder::kubectl {

inline constexpr std::size_t kMostAsked = 64;  // larderds without --all

inline std::size_t most_asked(const Arguments& arguments) {
  return arguments.every_pod ? Cluster::kMostPods : kMostAsked;
}

// Empty: all namespaces.
Result<std::string> wanted_namespace(const Arguments& arguments, const Cluster& cluster);

// For commands with one namespace. kInvalidArgument: -A.
Result<std::string> one_namespace(const Arguments& arguments, const Cluster& cluster);

}  // namespace larder::kubectl

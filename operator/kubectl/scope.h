// What the arguments mean in this cluster: which namespace, and how many larderd may be asked. Thread-compatible.
#pragma once

#include <cstddef>
#include <string>

#include "operator/kubectl/arguments.h"
#include "operator/kubectl/cluster.h"

namespace larder::kubectl {

inline constexpr std::size_t kMostAsked = 64;  // larderd, unless all are wanted

inline std::size_t most_asked(const Arguments& arguments) {
  return arguments.every_pod ? Cluster::kMostPods : kMostAsked;
}

// Empty: all of them.
Result<std::string> wanted_namespace(const Arguments& arguments, const Cluster& cluster);

// For what has one namespace. kInvalidArgument with -A.
Result<std::string> one_namespace(const Arguments& arguments, const Cluster& cluster);

}  // namespace larder::kubectl

#include "operator/kubectl/scope.h"

namespace larder::kubectl {

// An empty text means all namespaces, see in_namespace() in cluster.cc.
Result<std::string> wanted_namespace(const Arguments& arguments, const Cluster& cluster) {
  if (arguments.all_namespaces) return std::string();
  return arguments.ns.empty() ? cluster.current_namespace() : Result<std::string>(arguments.ns);
}

Result<std::string> one_namespace(const Arguments& arguments, const Cluster& cluster) {
  if (arguments.all_namespaces)
    return Status(
        Code::kInvalidArgument,
        "'" + arguments.words[0] + "' reads one object of one namespace: -n NAMESPACE, not -A");
  return wanted_namespace(arguments, cluster);
}

}  // namespace larder::kubectl

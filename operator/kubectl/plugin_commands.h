// The commands of `kubectl larder`. Each asks the cluster, judges and prints. An error is a
// sentence for the user. Thread-compatible.
#pragma once

#include "operator/kubectl/arguments.h"
#include "operator/kubectl/cluster.h"
#include "sidecar/ctl/outcome.h"

namespace larder::kubectl {

Result<ctl::Outcome> status_of_pools(const Arguments& arguments, const Cluster& cluster);
Result<ctl::Outcome> pods_of_pools(const Arguments& arguments, const Cluster& cluster);
Result<ctl::Outcome> why_pod(const Arguments& arguments, const Cluster& cluster);
// Runs until a signal or the end of --iterations.
Result<ctl::Outcome> top_of_pools(const Arguments& arguments, const Cluster& cluster);
// Prints the lookups of engines at a pod's larderd for --seconds.
Result<ctl::Outcome> trace_pod(const Arguments& arguments, const Cluster& cluster);
// Whether the pods of files would have a cache and be accepted, by dry runs.
Result<ctl::Outcome> check_files(const Arguments& arguments, const Cluster& cluster);
Result<ctl::Outcome> check_backend(const Arguments& arguments, const Cluster& cluster);

}  // namespace larder::kubectl

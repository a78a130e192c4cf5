// The commands of `kubectl larder`: each asks the cluster, judges, and has its say. An error is a sentence for the user.
// Thread-compatible.
#pragma once

#include "operator/kubectl/arguments.h"
#include "operator/kubectl/cluster.h"
#include "sidecar/ctl/outcome.h"

namespace larder::kubectl {

Result<ctl::Outcome> status_of_pools(const Arguments& arguments, const Cluster& cluster);
Result<ctl::Outcome> pods_of_pools(const Arguments& arguments, const Cluster& cluster);
Result<ctl::Outcome> why_pod(const Arguments& arguments, const Cluster& cluster);
// Until it is stopped, or --iterations are over.
Result<ctl::Outcome> top_of_pools(const Arguments& arguments, const Cluster& cluster);
// What engines ask the larderd of a pod for, as it comes, for --seconds.
Result<ctl::Outcome> trace_pod(const Arguments& arguments, const Cluster& cluster);
// Whether what the files make would have a cache and be taken: tried in dry runs.
Result<ctl::Outcome> check_files(const Arguments& arguments, const Cluster& cluster);
Result<ctl::Outcome> check_backend(const Arguments& arguments, const Cluster& cluster);

}  // namespace larder::kubectl

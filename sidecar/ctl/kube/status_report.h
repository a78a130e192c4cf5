// `kubectl larder status`: of each pool whether it helps, what is wrong and what to do, in words and as JSON. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "sidecar/ctl/kube/pod_seen.h"
#include "sidecar/ctl/kube/pool_seen.h"

namespace larder::kube {

struct PoolLine {
  PoolSeen pool;
  std::vector<std::string> without_cache;  // pods that asked for it and have none

  bool well() const { return without_cache.empty() && !has_problem(pool.findings); }
};

// With the pods among `pods` that each pool should have and has not.
std::vector<PoolLine> pool_lines(const std::vector<PoolSeen>& pools, const std::vector<PodSeen>& pods);
// Pods that name a pool that there is not.
std::vector<std::string> pods_of_no_pool(const std::vector<PoolSeen>& pools, const std::vector<PodSeen>& pods);

std::string status_text(const std::vector<PoolLine>& lines, const std::vector<std::string>& of_no_pool, bool with_namespace);
std::string status_json(const std::vector<PoolLine>& lines, const std::vector<std::string>& of_no_pool);

}  // namespace larder::kube

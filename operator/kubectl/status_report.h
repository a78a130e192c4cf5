// `kubectl larder status`: of each pool whether it helps, what is wrong and what to do, in words and as JSON. Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "operator/kubectl/pod_state.h"
#include "operator/kubectl/pool_state.h"

namespace larder::kubectl {

struct PoolLine {
  PoolState pool;
  std::vector<std::string> without_cache;  // pods that asked for it and have none

  bool well() const { return without_cache.empty() && !has_problem(pool.findings); }
};

// With the pods among `pods` that each pool should have and has not.
std::vector<PoolLine> pool_lines(const std::vector<PoolState>& pools, const std::vector<PodState>& pods);
// Pods that name a pool that there is not.
std::vector<std::string> pods_of_no_pool(const std::vector<PoolState>& pools, const std::vector<PodState>& pods);

std::string status_text(const std::vector<PoolLine>& lines, const std::vector<std::string>& of_no_pool, bool with_namespace);
std::string status_json(const std::vector<PoolLine>& lines, const std::vector<std::string>& of_no_pool);

}  // namespace larder::kubectl

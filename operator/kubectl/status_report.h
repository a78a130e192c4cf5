// `kubectl larder status`: for each pool its benefit, problems and remedies, as text and as JSON.
// Pure; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "operator/kubectl/pod_state.h"
#include "operator/kubectl/pool_state.h"

namespace larder::kubectl {

struct PoolLine {
  PoolState pool;
  std::vector<std::string> without_cache;  // pods that requested the pool and have no cache

  bool well() const { return without_cache.empty() && !has_problem(pool.findings); }
};

// Adds to each pool the pods of `pods` that lack its cache.
std::vector<PoolLine> pool_lines(const std::vector<PoolState>& pools,
                                 const std::vector<PodState>& pods);
// Pods that name a missing pool.
std::vector<std::string> pods_of_no_pool(const std::vector<PoolState>& pools,
                                         const std::vector<PodState>& pods);

std::string status_text(const std::vector<PoolLine>& lines,
                        const std::vector<std::string>& of_no_pool, bool with_namespace);
std::string status_json(const std::vector<PoolLine>& lines,
                        const std::vector<std::string>& of_no_pool);

}  // namespace larder::kubectl

#include "operator/kubectl/status_report.h"

#include <algorithm>

#include "operator/kubectl/table.h"
#include "operator/kubectl/why_report.h"
#include "operator/reconcile/conditions.h"

namespace larder::kubectl {
namespace {

using api::Object;

// Whether the pod requests the pool, may still get the cache, and has none.
// Ended pods are left out: they cannot get a cache any more.
bool lacks(const PodState& pod) {
  return pod.wanted_pool && !pod.injected && !pod.view.over;
}

// The hit ratio comes from the pool's status, so status needs no request to a larderd.
std::string helping(const PoolState& pool) {
  if (pool.hits == "-")
    return "not known yet: no prompt has been looked up, or no larderd has answered the operator";
  if (pool.hits == "0%")
    return "not yet: no prompt has had a hit; kubectl larder why POD gives the reason";
  return "yes: " + pool.hits + " of the prompt tokens asked for were found";
}

std::string section(const PoolLine& line, bool with_namespace) {
  const PoolState& pool = line.pool;
  std::string text = "\n" + (with_namespace ? pool.place() : pool.name) + "\n  Is it helping?  " +
                     helping(pool) + "\n";
  for (const Diagnostic& finding : pool.findings) text += finding_text(finding, 2);
  // One line for all pods of the pool; `why` explains one of them.
  if (!line.without_cache.empty())
    text += finding_text(
        {Diagnostic::Weight::kProblem, "NotInjected",
         std::to_string(line.without_cache.size()) +
             " annotated pods have no cache: " + reconcile::some_of(line.without_cache),
         "kubectl larder why " + line.without_cache.front() + " -n " + pool.ns},
        2);
  return text;
}

}  // namespace

// Pods are matched by namespace and name: a pool serves pods of its own namespace only.
std::vector<PoolLine> pool_lines(const std::vector<PoolState>& pools,
                                 const std::vector<PodState>& pods) {
  std::vector<PoolLine> lines;
  for (const PoolState& pool : pools) {
    PoolLine line{pool, {}};
    for (const PodState& pod : pods)
      if (lacks(pod) && pod.view.ns == pool.ns && *pod.wanted_pool == pool.name)
        line.without_cache.push_back(pod.view.name);
    lines.push_back(std::move(line));
  }
  return lines;
}

// A pod with a misspelt pool belongs to no pool's section and would otherwise stay unseen.
std::vector<std::string> pods_of_no_pool(const std::vector<PoolState>& pools,
                                         const std::vector<PodState>& pods) {
  std::vector<std::string> names;
  for (const PodState& pod : pods) {
    const auto is_its = [&](const PoolState& pool) {
      return pool.ns == pod.view.ns && pool.name == pod.wanted_pool;
    };
    if (lacks(pod) && std::ranges::none_of(pools, is_its)) names.push_back(pod.place());
  }
  return names;
}

std::string status_text(const std::vector<PoolLine>& lines,
                        const std::vector<std::string>& of_no_pool, bool with_namespace) {
  std::vector<Row> rows{{"POOL", "PODS", "ENGINES", "MEMORY", "HITS", "BACKEND", "READY"}};
  for (const PoolLine& line : lines) {
    const PoolState& pool = line.pool;
    rows.push_back({with_namespace ? pool.place() : pool.name,
                    std::to_string(pool.attached) + "/" + std::to_string(pool.pods),
                    std::to_string(pool.engines), pool.memory, pool.hits,
                    pool.backend.empty() ? "-" : pool.backend, pool.ready});
  }
  std::string text = lines.empty() ? "No CachePool here. docs/get-started/kubernetes.md, step 3, "
                                     "creates one; -A looks in all namespaces.\n"
                                   : table_text(rows);
  for (const PoolLine& line : lines) text += section(line, with_namespace);
  if (!of_no_pool.empty())
    text += "\n" + finding_text({Diagnostic::Weight::kProblem, "NoSuchPool",
                                 std::to_string(of_no_pool.size()) +
                                     " pods name a CachePool that does not exist: " +
                                     reconcile::some_of(of_no_pool),
                                 "kubectl larder why POD"},
                                0);
  return text;
}

std::string status_json(const std::vector<PoolLine>& lines,
                        const std::vector<std::string>& of_no_pool) {
  Object list = Object::array();
  for (const PoolLine& line : lines) {
    const PoolState& pool = line.pool;
    list.push_back({{"namespace", pool.ns},
                    {"pool", pool.name},
                    {"well", line.well()},
                    {"ready", pool.ready},
                    {"pods", pool.pods},
                    {"attached", pool.attached},
                    {"engines", pool.engines},
                    {"memory", pool.memory},
                    {"hits", pool.hits},
                    {"withoutCache", line.without_cache},
                    {"findings", findings_json(pool.findings)}});
  }
  return json_text({{"pools", list}, {"podsOfNoPool", of_no_pool}});
}

}  // namespace larder::kubectl

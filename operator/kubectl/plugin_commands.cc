#include "operator/kubectl/plugin_commands.h"

#include <algorithm>
#include <chrono>

#include "operator/api/names.h"
#include "operator/kubectl/gather.h"
#include "operator/kubectl/pods_report.h"
#include "operator/kubectl/scope.h"
#include "operator/kubectl/status_report.h"
#include "operator/kubectl/why_report.h"

namespace larder::kubectl {
namespace {

using ctl::Outcome;

// As in diff and grep: 1 means "looked, and found a problem".
constexpr int kExitUnwell = 1;
constexpr std::chrono::seconds kTraceMore{60};  // for start and last lines

// kubectl's error for an unknown kind helps nobody who has not installed the chart.
Status not_installed(const Status& status) {
  if (status.code() != Code::kNotFound) return status;
  return {Code::kNotFound,
          "the cluster knows no CachePools: Larder is not installed. helm install larder "
          "charts/larder -n larder-system --create-namespace"};
}

// The pools of the namespace; with `name`, only this pool, which must exist.
// A list and no GET: a wrong name can be answered with the names that exist.
Result<std::vector<PoolState>> pools_of(const Cluster& cluster, const std::string& ns,
                                        const std::string& name) {
  const Result<std::vector<api::Object>> objects =
      cluster.objects("cachepools." + std::string(api::kGroup), ns);
  if (!objects.ok()) return not_installed(objects.status());
  std::vector<PoolState> pools;
  for (const api::Object& object : *objects)
    if (name.empty() || api::name_of(object) == name) pools.push_back(pool_seen(object));
  if (!name.empty() && pools.empty()) {
    std::vector<std::string> others;
    for (const api::Object& object : *objects) others.push_back(api::name_of(object));
    return Status(Code::kNotFound, "there is no CachePool " + name + " in " +
                                       (ns.empty() ? "any namespace" : "namespace " + ns) +
                                       "; there are: " + list_of(others));
  }
  return pools;
}

std::string operand(const Arguments& arguments) {
  return arguments.words.size() > 1 ? arguments.words[1] : "";
}

const PoolState* pool_named(const std::vector<PoolState>& pools, const PodState& pod) {
  const auto found = std::ranges::find_if(pools, [&](const PoolState& pool) {
    return pool.ns == pod.view.ns && pool.name == pool_of(pod);
  });
  return found == pools.end() ? nullptr : &*found;
}

// Findings for a list of pods, without further requests to the API server. `why` gives details
// about one pod.
// The list of pods must stay one request for all pods.
Findings at_a_glance(const PodState& pod, const std::vector<PoolState>& pools) {
  if (!pod.not_injected.empty())
    return {{Diagnostic::Weight::kProblem, "LeftAlone", pod.not_injected, ""}};
  if (pool_named(pools, pod) == nullptr)
    return {{Diagnostic::Weight::kProblem, "NoSuchPool",
             "there is no CachePool " + pool_of(pod) + " in the pod's namespace", ""}};
  return {{Diagnostic::Weight::kProblem, "NotAsked", "the injector did not see the pod",
           "kubectl larder why " + pod.view.name}};
}

// kubectl's own words would lack the hint to -A.
Result<PodState> pod_named(const Cluster& cluster, const std::string& ns, const std::string& name) {
  Result<PodState> pod = cluster.pod(ns, name);
  if (pod.ok() || pod.status().code() != Code::kNotFound) return pod;
  return Status(Code::kNotFound, "there is no pod " + name + " in namespace " + ns +
                                     "; kubectl larder pods -A lists pods with a cache");
}

// The pods of the same pool, by the label that the injector sets: one request instead of all pods.
Result<std::vector<PodState>> fellows_of(const Cluster& cluster, const PodState& pod) {
  return cluster.pods(pod.view.ns, std::string(api::kPoolLabel) + "=" + pool_of(pod));
}

}  // namespace

// status asks no larderd: the operator has written the figures into the status of the pools.
Result<Outcome> status_of_pools(const Arguments& arguments, const Cluster& cluster) {
  const Result<std::string> ns = wanted_namespace(arguments, cluster);
  if (!ns.ok()) return ns.status();
  const Result<std::vector<PoolState>> pools = pools_of(cluster, *ns, operand(arguments));
  if (!pools.ok()) return pools.status();
  const Result<std::vector<PodState>> pods = cluster.pods(*ns);
  if (!pods.ok()) return pods.status();
  const std::vector<PoolLine> lines = pool_lines(*pools, *pods);
  // With a named pool the user has not asked about pods of other names.
  const std::vector<std::string> of_none =
      operand(arguments).empty() ? pods_of_no_pool(*pools, *pods) : std::vector<std::string>();
  const bool well = of_none.empty() && std::ranges::all_of(lines, &PoolLine::well);
  return Outcome{
      arguments.json ? status_json(lines, of_none) : status_text(lines, of_none, ns->empty()),
      well ? 0 : kExitUnwell};
}

Result<Outcome> pods_of_pools(const Arguments& arguments, const Cluster& cluster) {
  const Result<std::string> ns = wanted_namespace(arguments, cluster);
  if (!ns.ok()) return ns.status();
  const Result<std::vector<PoolState>> pools = pools_of(cluster, *ns, operand(arguments));
  if (!pools.ok()) return pools.status();
  Result<std::vector<PodState>> all = cluster.pods(*ns);
  if (!all.ok()) return all.status();
  // Only pods that Larder knows: a namespace may have thousands of others.
  std::erase_if(*all, [&](const PodState& pod) {
    const bool of_larder = pod.wanted_pool || pod.view.has_larderd || !pod.not_injected.empty();
    return pod.view.over || !of_larder ||
           (!operand(arguments).empty() && pool_of(pod) != operand(arguments));
  });
  const Fleet fleet(cluster, *std::move(all), most_asked(arguments));
  std::vector<PodLine> lines;
  bool well = true;
  for (const PodState& pod : fleet.pods()) {
    // larderd of placement Node serves other pods and is no user's pod;
    // its answers are in their rows.
    if (pod.is_node_larderd()) continue;
    const HitFacts facts = fleet.facts_of(pod, pool_named(*pools, pod));
    lines.push_back({pod, pool_of(pod), pod.injected ? facts.larderd : nullptr,
                     pod.injected ? why_no_hits(facts) : at_a_glance(pod, *pools)});
    well = well && !has_problem(lines.back().findings);
  }
  const int status = well ? 0 : kExitUnwell;
  if (arguments.json) return Outcome{pods_json(lines), status};
  if (lines.empty())
    return Outcome{
        "No pod has the annotation larder.dev/pool here. kubectl larder status shows pools; -A "
        "looks in all namespaces.\n",
        0};
  std::string text = pods_text(lines, ns->empty());
  if (fleet.not_asked() > 0)
    text += "\n" + std::to_string(fleet.not_asked()) +
            " more larderd were not asked; --all asks each.\n";
  if (!well) text += "\nkubectl larder why POD explains one pod.\n";
  return Outcome{text, status};
}

// An exec into larderd's container, since only the admin socket gives traces.
Result<Outcome> trace_pod(const Arguments& arguments, const Cluster& cluster) {
  if (arguments.json)
    return Status(Code::kInvalidArgument, "trace writes JSON, one object a line, without -o json");
  const Result<std::string> ns = one_namespace(arguments, cluster);
  if (!ns.ok()) return ns.status();
  const Result<PodState> pod = pod_named(cluster, *ns, operand(arguments));
  if (!pod.ok()) return pod.status();
  Result<std::vector<PodState>> fellows = fellows_of(cluster, *pod);
  if (!fellows.ok()) return fellows.status();
  const Fleet fleet(cluster, *std::move(fellows), 0);  // finds the larderd; no status is needed
  const PodState* larderd = fleet.larderd_of(*pod);
  if (larderd == nullptr)
    return Status(Code::kNotFound, "no larderd serves pod " + pod->view.name +
                                       ": kubectl larder why " + pod->view.name);
  const std::chrono::seconds recorded(arguments.seconds);
  const Status shown = cluster.run_larderctl(
      *larderd, {"trace", "--seconds", std::to_string(arguments.seconds)}, recorded + kTraceMore);
  if (!shown.ok()) return shown;
  return Outcome{};
}

Result<Outcome> why_pod(const Arguments& arguments, const Cluster& cluster) {
  const Result<std::string> ns = one_namespace(arguments, cluster);
  if (!ns.ok()) return ns.status();
  const Result<PodState> pod = pod_named(cluster, *ns, operand(arguments));
  if (!pod.ok()) return pod.status();
  Findings findings;
  if (!pod->injected) {
    // Two questions: a pod without injection has an injection problem; a pod with injection is
    // asked for its hits.
    findings = why_not_injected(gather_injection(cluster, *pod));
  } else {
    const Result<api::Object> object =
        cluster.object("cachepools." + std::string(api::kGroup), *ns, pool_of(*pod));
    const std::optional<PoolState> pool =
        object.ok() ? std::optional(pool_seen(*object)) : std::nullopt;
    Result<std::vector<PodState>> fellows = fellows_of(cluster, *pod);
    if (!fellows.ok()) return fellows.status();
    // The pod itself must be among the pods of the fleet, even if its label is gone.
    if (std::ranges::none_of(*fellows,
                             [&](const PodState& one) { return one.view.uid == pod->view.uid; }))
      fellows->push_back(*pod);
    const Fleet fleet(cluster, *std::move(fellows), most_asked(arguments), &*pod);
    HitFacts facts = fleet.facts_of(*pod, pool ? &*pool : nullptr);
    // Logs may be large: read them only where larderd knows no namespace of the engine, so that the
    // reason stands in the engine's log alone.
    if (facts.larderd != nullptr && has_no_namespace(*facts.larderd))
      for (const ContainerState& container : pod->containers)
        if (const Result<std::string> log = cluster.log(*pod, container.name);
            log.ok() && facts.engine_says.empty())
          facts.engine_says = why_off(*log);
    findings = why_no_hits(facts);
  }
  return Outcome{arguments.json ? why_json(*pod, findings) : why_text(*pod, findings),
                 has_problem(findings) ? kExitUnwell : 0};
}

}  // namespace larder::kubectl

#include "operator/reconcile/pool_conditions.h"

#include <algorithm>
#include <functional>

#include "operator/api/names.h"
#include "operator/reconcile/cache_serves.h"
#include "operator/reconcile/objects_applied.h"
#include "operator/reconcile/peers_reachable.h"
#include "operator/reconcile/pod_trouble.h"
#include "operator/reconcile/pool_status.h"
#include "operator/reconcile/ports_guarded.h"

namespace larder::reconcile {
namespace {

using api::CachePool;
using Names = std::vector<std::string>;

Names names_where(const std::vector<PodView>& pods,
                  const std::function<bool(const PodView&)>& test) {
  Names names;
  for (const PodView& pod : pods)
    if (test(pod)) names.push_back(pod.name);
  return names;
}

std::string of_pods(const Names& names, const PoolFacts& facts) {
  return reconcile::of_pods(names, facts.pods.size());
}

// Wrong sizes have a condition of their own; other wrong fields show in Ready alone.
Condition sizes_fit(const PoolFacts& facts) {
  const std::string& why = facts.parsed.text();
  const bool sizes = why.starts_with("spec.memory") || why.starts_with("spec.disk.size") ||
                     why.starts_with("spec.resources");
  if (!facts.parsed.ok() && sizes) return {"SizesFit", Truth::kFalse, "DoNotFit", why};
  if (!facts.parsed.ok()) return {"SizesFit", Truth::kUnknown, "Invalid", why};
  constexpr std::uint64_t kMi = 1u << 20;
  const api::MemorySpec& memory = facts.pool->spec.memory;
  return {"SizesFit", Truth::kTrue, "Fit",
          memory.size + " for chunks, and larderd's own " +
              std::to_string((api::own_memory_bytes(facts.pool->spec) + kMi - 1) / kMi) + "Mi"};
}

// A CacheBackend that cannot be read must not roll the nodes to a configuration without it (F-254).
Condition node_objects_applied(const PoolFacts& facts) {
  if (!facts.objects_kept)
    return objects_applied(facts.brought, "pool",
                           facts.pool->spec.peers
                               ? "ConfigMap, DaemonSet, Service and NetworkPolicy"
                               : "ConfigMap and DaemonSet");
  return {"ObjectsApplied", Truth::kTrue, "Kept",
          "ConfigMap and DaemonSet stay as they were with CacheBackend " +
              facts.pool->spec.backend +
              " until the operator can read the CacheBackend again; until then the nodes get no "
              "other change of the pool"};
}

Condition backend_ready(const PoolFacts& facts) {
  const std::string& name = facts.pool->spec.backend;
  if (!facts.backend)
    return {"BackendReady", Truth::kFalse, "NoSuchBackend",
            "there is no CacheBackend " + name + " in namespace " + facts.pool->ns +
                ": create the CacheBackend, or correct spec.backendRef.name. Until then chunks "
                "stay in memory and on disk"};
  const Truth ready = truth_of(*facts.backend, "Ready");
  const std::string reason = reason_of(*facts.backend, "Ready"),
                    message = message_of(*facts.backend, "Ready");
  if (ready == Truth::kTrue)
    return {"BackendReady", Truth::kTrue, "Ready", "CacheBackend " + name + ": " + message};
  if (reason.empty())
    return {"BackendReady", Truth::kUnknown, "NotChecked",
            "CacheBackend " + name + " has not been checked yet"};
  return {"BackendReady", ready, reason, "CacheBackend " + name + ": " + message};
}

// The Secrets belong to the backend. The pool repeats the condition, since users look at the pool.
Condition secret_missing(const PoolFacts& facts) {
  const std::string backend = "CacheBackend " + facts.pool->spec.backend;
  if (!facts.backend)
    return {"SecretMissing", Truth::kUnknown, "NoSuchBackend", "there is no " + backend};
  const Truth missing = truth_of(*facts.backend, "SecretMissing");
  const std::string reason = reason_of(*facts.backend, "SecretMissing");
  if (missing != Truth::kFalse && !reason.empty())
    return {"SecretMissing", missing, reason,
            backend + ": " + message_of(*facts.backend, "SecretMissing")};
  if (missing != Truth::kFalse)
    return {"SecretMissing", Truth::kUnknown, "NotChecked", backend + " has not been checked yet"};
  return {"SecretMissing", Truth::kFalse, "AllThere", "every Secret of " + backend + " exists"};
}

std::string page_name(const CachePool& pool) {
  return pool.spec.memory.hugepages == api::Hugepages::k1Gi ? "1Gi" : "2Mi";
}

// The scheduler's message is the only sign, e.g. "0/3 nodes are available: 3 Insufficient
// hugepages-2Mi".
Names without_hugepages(const PoolFacts& facts) {
  return names_where(facts.pods, [](const PodView& pod) {
    return pod.unscheduled.find("hugepages-") != std::string::npos;
  });
}

// vm.nr_hugepages counts all pages of a node: add the pages that pods have. A lower number would
// remove pages.
std::string how_to_reserve(const PoolFacts& facts, std::uint64_t pages) {
  const PagesSeen& seen = facts.hugepages_of_nodes;
  std::string count = totals_for(seen, pages);
  const bool enough = have_enough(seen, pages);
  if (count.empty() && enough)
    return "The nodes have enough free pages: another constraint keeps the pods from the nodes";
  if (count.empty() && !seen.nodes.empty())
    count = "the node's current number plus " + std::to_string(pages);
  if (!seen.known || seen.without > 0)
    count += (count.empty() ? "" : ", ") + std::to_string(pages) + " on a node without any";
  const std::string first = enough ? "For another node, reserve pages: " : "Reserve pages: ";
  // Pages of 1 GiB need contiguous memory, which a running node rarely has: the boot line reserves
  // them.
  if (facts.pool->spec.memory.hugepages == api::Hugepages::k1Gi)
    return first + "on the node's boot line hugepagesz=1G hugepages=" + count +
           ", and reboot the node; or set memory.hugepages: 2Mi";
  // The kubelet counts huge pages at its start only.
  return first + "sysctl -w vm.nr_hugepages=" + count +
         " (to keep the pages over a reboot, write the same line into /etc/sysctl.d/, or "
         "hugepagesz=2M hugepages= on the boot line), then restart the node's kubelet";
}

Condition hugepages_missing(const PoolFacts& facts) {
  const CachePool& pool = *facts.pool;
  const std::uint64_t page =
      pool.spec.memory.hugepages == api::Hugepages::k1Gi ? 1u << 30 : 2u << 20;
  const std::uint64_t pages = pool.spec.memory.size_bytes / page;
  const Names waiting = without_hugepages(facts);
  if (waiting.empty())
    return {"HugepagesMissing", Truth::kFalse, "Enough",
            "no pod waits for pages of " + page_name(pool)};
  const auto one = std::ranges::find(facts.pods, waiting.front(), &PodView::name);
  std::string text = of_pods(waiting, facts) + " wait: each needs " + std::to_string(pages) +
                     " free pages of " + page_name(pool) + " on one node. ";
  const PagesSeen& seen = facts.hugepages_of_nodes;
  if (seen.known) text += "On nodes: " + text_of(seen) + ". ";
  // The scheduler's own words help where the figures of the nodes do not explain the wait.
  if (!seen.known || have_enough(seen, pages))
    text += "The scheduler: " + quoted(one->unscheduled) + ". ";
  return {"HugepagesMissing", Truth::kTrue, "NotEnough", text + how_to_reserve(facts, pages)};
}

// True and not Unknown: a new pool without pods is no fault, and `kubectl wait` for the pool ends.
Condition without_pods(const PoolFacts& facts) {
  if (facts.pool->spec.placement == api::Placement::kSidecar)
    return {"PodsReady", Truth::kTrue, "NoPods",
            "no pod has this pool yet: annotate a pod template with larder.dev/pool: " +
                facts.pool->name + ". Restart pods that were created before the pool"};
  const std::int64_t wanted =
      facts.daemon_set ? api::number_at(*facts.daemon_set, "status.desiredNumberScheduled") : 0;
  if (wanted == 0)
    return {"PodsReady", Truth::kTrue, "NoPods",
            "no node runs larderd yet: see spec.node.nodeSelector and tolerations"};
  const std::string name = api::name_of(*facts.daemon_set);
  // A namespace whose Pod Security refuses hostPath leaves the DaemonSet without pods.
  return {"PodsReady", Truth::kFalse, "NotMade",
          "DaemonSet " + name + " should have " + std::to_string(wanted) +
              " pods and has no pod: kubectl describe daemonset " + name +
              " shows the reason. Pod Security baseline and restricted refuse the hostPath volumes "
              "of these pods"};
}

std::string image_to_check(const std::string& container) {
  const api::Plugin* plugin = api::plugin_in(container);
  return plugin ? ". Check " + std::string(plugin->scheme) + ".image of the chart"
                : ". Check spec.image";
}

// The remedy, from the first pod with the trouble.
std::string remedy(Trouble trouble, const PodView& pod, const Heard& heard) {
  const auto down = heard.down.find(pod.uid);
  const std::string what = down == heard.down.end()
                               ? ""
                               : "the engine serves without its cache: " + quoted(down->second.why);
  switch (trouble) {
    case Trouble::kOutOfMemory:
      return (what.empty() ? "larderd was killed for memory" : what) +
             ": remove or raise spec.resources.limits.memory";
    case Trouble::kImageNotPulled:
      return pod.waiting + ": " + quoted(pod.waiting_text) + image_to_check(pod.waiting_container) +
             ", and whether the node may pull the image";
    case Trouble::kDoesNotRun:
      return (what.empty() ? pod.waiting + ": " + quoted(pod.waiting_text)
                           : what + ". Kubernetes restarts larderd again and again") +
             ". See kubectl logs " + pod.name + " -c " +
             (pod.waiting_container.empty() ? "larder" : pod.waiting_container);
    case Trouble::kNotScheduled: return "the scheduler: " + quoted(pod.unscheduled);
    default: return "larderd is not ready yet";
  }
}

// Why larderd does not run in some pods, in order of severity.
Condition pods_ready(const PoolFacts& facts) {
  const auto no = [&](const char* reason, const Names& names, const std::string& what) {
    return Condition{"PodsReady", Truth::kFalse, reason, of_pods(names, facts) + ": " + what};
  };
  if (facts.pods.empty()) return without_pods(facts);
  for (const Trouble trouble : kTroubles) {
    const Names names = names_where(
        facts.pods, [&](const PodView& pod) { return trouble_of(pod, facts.heard) == trouble; });
    if (!names.empty())
      return no(text(trouble), names,
                remedy(trouble, *std::ranges::find(facts.pods, names.front(), &PodView::name),
                       facts.heard));
  }
  return {"PodsReady", Truth::kTrue, "AllReady",
          "larderd is ready in all " + std::to_string(facts.pods.size()) + " pods"};
}

// A sentence about pods that the user must restart; empty: no such pods.
// The restart of an engine belongs to its user: the operator never restarts an engine.
std::string to_restart(const PoolFacts& facts, const std::function<bool(const PodView&)>& rolled) {
  const auto is_old = [&](const PodView& pod) { return needs_restart(facts, pod) && !rolled(pod); };
  const Names pods = names_where(facts.pods, is_old), engines = names_where(facts.engines, is_old);
  if (!pods.empty())
    return of_pods(pods, facts) +
           " need a restart for the current spec (memory, disk, image, Secrets of the backend, "
           "chunkTokens, engine): kubectl rollout restart their Deployment at a convenient time";
  if (engines.empty()) return "";
  return std::to_string(engines.size()) + " of " + std::to_string(facts.engines.size()) +
         " engines' pods (" + some_of(engines) +
         ") need a restart for the current spec (the shim, chunkTokens, engine): kubectl rollout "
         "restart their Deployment at a "
         "convenient time. Pods with another chunkTokens share no chunks with newer pods";
}

// A node has a folder for 2Mi pages. 1Gi pages belong to a pod and end with it
// (desired/volumes.cc).
std::string kept_by_a_roll(const CachePool& pool) {
  if (pool.spec.memory.hugepages == api::Hugepages::k1Gi)
    return ", and each node loses the chunks in memory: pages of 1Gi belong to the pod";
  return ", and the nodes keep the chunks in memory, unless the memory itself changed";
}

Condition pods_up_to_date(const PoolFacts& facts) {
  // A pod of the DaemonSet has no annotation of the injector. The DaemonSet replaces these pods
  // itself.
  const auto rolled = [&](const PodView& pod) {  // the DaemonSet replaces the pod
    return facts.pool->spec.placement == api::Placement::kNode && !pod.injected;
  };
  const Names rolling = names_where(
      facts.pods, [&](const PodView& pod) { return needs_restart(facts, pod) && rolled(pod); });
  const std::string by_hand = to_restart(facts, rolled);
  if (!rolling.empty())
    return {"PodsUpToDate", Truth::kFalse, "RollingOut",
            of_pods(rolling, facts) +
                " run with the configuration before the last change; the DaemonSet replaces the "
                "pods node by node" +
                kept_by_a_roll(*facts.pool) + (by_hand.empty() ? "" : ". " + by_hand)};
  if (!by_hand.empty()) return {"PodsUpToDate", Truth::kFalse, "RestartNeeded", by_hand};
  // A failed patch is tried again by the queue; the condition shows the error of the last try.
  if (!facts.configured.ok())
    return {"PodsUpToDate", Truth::kFalse, "NotTold",
            facts.configured.to_string() + ". The operator tries again"};
  const Names kept =
      names_where(facts.pods, [&](const PodView& pod) { return is_kept(facts, pod); });
  if (!kept.empty())
    return {"PodsUpToDate", Truth::kUnknown, "BackendNotRead",
            of_pods(kept, facts) + " run with CacheBackend " + facts.pool->spec.backend +
                ", which is missing or unreadable. The pods keep their configuration, and need no "
                "restart if the CacheBackend returns unchanged"};
  return {"PodsUpToDate", Truth::kTrue, "UpToDate", "every pod has the pool's configuration"};
}

// Larderds without an engine. In placement Node, a larderd may wait for its first engine for ever.
Condition engines_attached(const PoolFacts& facts) {
  const auto answer_of = [&](const PodView& pod) { return facts.heard.answers.find(pod.uid); };
  const Names alone = names_where(facts.pods, [&](const PodView& pod) {
    const auto answer = answer_of(pod);
    return answer != facts.heard.answers.end() && answer->second.engines == 0;
  });
  if (facts.heard.answers.empty())
    return {"EnginesAttached", Truth::kUnknown, "NotAsked", "no larderd has answered yet"};
  if (alone.empty())
    return {"EnginesAttached", Truth::kTrue, "Attached",
            "every larderd that answered has an engine"};
  return {"EnginesAttached", Truth::kFalse, "NoEngine",
          of_pods(alone, facts) +
              ": larderd runs without an attached engine. vLLM attaches after the load of the "
              "model; if no engine attaches: " +
              "kubectl larder why " + alone.front() + " -n " + facts.pool->ns};
}

// The figures are rounded like the status.
// larderd's counters begin anew with each larderd, so the ratio is that of the living larderds.
Condition helping(const PoolFacts& facts) {
  const PoolSums sums = sums_of(facts);
  if (sums.tokens_asked == 0)
    return {"Helping", Truth::kUnknown, "NoRequests",
            sums.answered == 0 ? "no larderd has answered yet"
                               : "the engines have looked up no prompt since the start of larderd"};
  if (sums.tokens_hit == 0)
    return {"Helping", Truth::kFalse, "NoHits",
            "the engines looked up prompts without a hit: kubectl larder why POD -n " +
                facts.pool->ns + " shows the reason for each pod"};
  return {"Helping", Truth::kTrue, "Hits",
          std::to_string(sums.tokens_hit * 100 / sums.tokens_asked) +
              "% of the looked-up prompt tokens hit"};
}

// For transfer: sidecar. Without a GPU the engine's process copies, which is slower; the pool stays
// ready.
Condition gpu_visible(const PoolFacts& facts) {
  const CachePool& pool = *facts.pool;
  if (pool.spec.placement == api::Placement::kNode && pool.spec.runtime_class.empty())
    return {"GpuVisible", Truth::kFalse, "NoRuntimeClass",
            "larderd has no access to a GPU for transfer: sidecar: set spec.runtimeClassName, such "
            "as nvidia. Until then the engine's process copies, as with transfer: shim"};
  const Names blind =
      names_where(facts.pods, [](const PodView& pod) { return !pod.notice.empty(); });
  if (blind.empty())
    return {"GpuVisible", Truth::kTrue, "Asked",
            "every pod requests a GPU for larderd's container"};
  const auto one = std::ranges::find(facts.pods, blind.front(), &PodView::name);
  return {"GpuVisible", Truth::kFalse, "NotVisible",
          of_pods(blind, facts) + ": " + quoted(one->notice)};
}

// Conditions named ...Missing are True in the bad case; all others are False.
bool is_bad(const Condition& condition) {
  const bool true_is_bad = condition.type.ends_with("Missing");
  return condition.status == (true_is_bad ? Truth::kTrue : Truth::kFalse);
}

// Work in progress, and work that waits for a convenient moment, leaves the pool ready.
bool is_harmless(const Condition& condition) {
  return condition.type == "PodsUpToDate" || condition.type == "EnginesAttached" ||
         condition.type == "Helping" || condition.type == "GpuVisible" ||
         condition.type == "CacheServes" || condition.type == "PeersReachable" ||
         condition.type == "PortsGuarded" || condition.reason == "Starting" ||
         condition.reason == "NotChecked";
}

// The first bad condition gives Ready its reason, so the order in pool_conditions() is the order of
// importance.
Condition ready(const PoolFacts& facts, const std::vector<Condition>& others) {
  if (!facts.parsed.ok()) return {"Ready", Truth::kFalse, "Invalid", facts.parsed.text()};
  for (const Condition& other : others)
    if (is_bad(other) && !is_harmless(other))
      return {"Ready", Truth::kFalse, other.reason, other.message};
  for (const Condition& other : others)
    if (other.type == "PodsReady") return {"Ready", Truth::kTrue, other.reason, other.message};
  return {"Ready", Truth::kUnknown, "Unknown", ""};
}

}  // namespace

bool waits_for_hugepages(const PoolFacts& facts) {
  return facts.pool && facts.pool->spec.memory.hugepages != api::Hugepages::kNone &&
         !without_hugepages(facts).empty();
}

std::vector<Condition> pool_conditions(const PoolFacts& facts) {
  std::vector<Condition> conditions{sizes_fit(facts)};
  if (facts.pool) {
    if (facts.pool->spec.placement == api::Placement::kNode)
      conditions.push_back(node_objects_applied(facts));
    // The missing Secret comes before the backend, since the user must create the Secret.
    if (!facts.pool->spec.backend.empty()) conditions.push_back(secret_missing(facts));
    if (!facts.pool->spec.backend.empty()) conditions.push_back(backend_ready(facts));
    if (facts.pool->spec.memory.hugepages != api::Hugepages::kNone)
      conditions.push_back(hugepages_missing(facts));
    if (facts.pool->spec.transfer == api::Transfer::kSidecar)
      conditions.push_back(gpu_visible(facts));
    conditions.push_back(pods_ready(facts));
    conditions.push_back(pods_up_to_date(facts));
    if (facts.pool->spec.placement == api::Placement::kSidecar)
      conditions.push_back(engines_attached(facts));
    conditions.push_back(cache_serves(facts));
    if (facts.pool->spec.peers) conditions.push_back(peers_reachable(facts));
    if (const api::Plugin* plugin = api::listening_plugin_of(facts.parsed_backend))
      conditions.push_back(ports_guarded(facts, *plugin));
    conditions.push_back(helping(facts));
  }
  conditions.insert(conditions.begin(), ready(facts, conditions));
  return conditions;
}

}  // namespace larder::reconcile

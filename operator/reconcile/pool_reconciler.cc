#include "operator/reconcile/pool_reconciler.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "operator/api/names.h"
#include "operator/desired/larderd.h"
#include "operator/reconcile/isolation.h"
#include "operator/reconcile/node_pages.h"
#include "operator/reconcile/pool_conditions.h"
#include "sidecar/base/log_throttle.h"

namespace larder::reconcile {
namespace {

using api::Object;
using std::chrono::milliseconds;

// For pods that wait for pages.
constexpr milliseconds kLater{60'000};

k8s::ObjectPtr of_kind(std::string_view kind, const std::vector<k8s::ObjectPtr>& objects) {
  const auto found = std::ranges::find_if(
      objects, [kind](const auto& one) { return api::text_at(*one, "kind") == kind; });
  return found == objects.end() ? nullptr : *found;
}

Owner owner_of(const api::CachePool& pool) {
  return {"CachePool", pool.ns, pool.name, pool.uid};
}

// Whether a pool's objects exist and were made with a backend. Objects of a pool that never had its
// backend follow the pool without one.
bool have_backend(const std::vector<k8s::ObjectPtr>& objects) {
  const k8s::ObjectPtr config = of_kind("ConfigMap", objects);
  if (!config || !of_kind("DaemonSet", objects)) return false;
  for (const Object& file : api::at(*config, "data"))
    if (file.is_string() && desired::has_backend(file.get_ref<const std::string&>())) return true;
  return false;
}

}  // namespace

PoolReconciler::PoolReconciler(const Context& context, Hear hear, Report report,
                               const base::Clock& clock)
    : context_(context),
      hear_(std::move(hear)),
      report_(std::move(report)),
      freeing_(context, clock) {}

// Ended pods and pods without larderd and injection are left out: a label alone makes no member of
// the pool.
PoolReconciler::Pods PoolReconciler::pods_of(const k8s::Key& key) const {
  Pods pods;
  for (const k8s::ObjectPtr& pod : context_.pods.all(key.ns)) {
    if (api::label(*pod, api::kPoolLabel) != key.name) continue;
    PodView view = view_of(*pod);
    if (!view.over && (view.has_larderd || view.injected))
      (view.has_larderd ? pods.larderds : pods.engines).push_back(std::move(view));
  }
  return pods;
}

void PoolReconciler::observe_backend(PoolFacts& facts) const {
  const api::CachePool& pool = *facts.pool;
  if (pool.spec.backend.empty()) return;
  facts.backend = context_.backends.find(pool.ns, pool.spec.backend);
  if (facts.backend)
    if (Result<api::CacheBackend> parsed = api::parse_backend(*facts.backend); parsed.ok())
      facts.parsed_backend = std::move(*parsed);
  facts.backend_unread = !facts.parsed_backend;
  facts.objects_kept =
      facts.backend_unread && have_backend(children_of(context_.children, owner_of(pool)));
}

// A wrong spec is judged with its pods: the status still counts them.
PoolFacts PoolReconciler::observe(const Object& object) const {
  PoolFacts facts;
  facts.generation = api::number_at(object, "metadata.generation");
  Pods pods = pods_of({api::namespace_of(object), api::name_of(object)});
  facts.pods = std::move(pods.larderds);
  facts.engines = std::move(pods.engines);
  facts.heard = hear_(facts.pods);
  Result<api::CachePool> pool = api::parse_pool(object);
  if (!pool.ok()) {
    facts.parsed = pool.status();
    return facts;
  }
  facts.pool = std::move(*pool);
  observe_backend(facts);
  return facts;
}

void PoolReconciler::observe_policies(PoolFacts& facts) const {
  if (desired::guarded_ports(*facts.pool, facts.parsed_backend).empty()) return;
  const k8s::Cache& policies = *context_.children.at(k8s::resources::kNetworkPolicies.plural);
  facts.isolation = isolation_of(*facts.pool, policies.all(facts.pool->ns), facts.pods);
}

// With an unreadable backend the objects stay as they are.
void PoolReconciler::apply_objects(PoolFacts& facts) const {
  if (!facts.objects_kept)
    facts.brought = bring(context_.client, context_.children, owner_of(*facts.pool),
                          facts.desired_state.objects);
}

void PoolReconciler::observe_applied(PoolFacts& facts) const {
  facts.daemon_set = of_kind("DaemonSet", children_of(context_.children, owner_of(*facts.pool)));
  // Nodes are listed only for a pool that waits for pages: a list of nodes is expensive, and its
  // right is optional.
  if (!waits_for_hugepages(facts)) return;
  const bool is_1gi = facts.pool->spec.memory.hugepages == api::Hugepages::k1Gi;
  facts.hugepages_of_nodes = pages_of_nodes(context_.client, is_1gi ? "1Gi" : "2Mi");
}

// Only a changed configuration is patched, and only where the pod's hash is the wanted one: other
// pods need a restart first. The kubelet brings the annotation to larderd (downwardAPI).
bool PoolReconciler::configure(PoolFacts& facts) const {
  if (!facts.pool || facts.pool->spec.placement != api::Placement::kSidecar) return false;
  std::size_t patches = 0;
  for (PodView& pod : facts.pods) {
    const DesiredConfig& desired = facts.desired_config_of(pod);
    if (pod.restart_hash != desired.restart_hash || pod.config == desired.config) continue;
    // kMostPatches bounds the requests of one reconcile. The rest follows a second later, so other
    // pools get their turn.
    if (patches++ == kMostPatches) return true;
    const Object patch = {
        {"metadata",
         // The uid in the patch makes the API server refuse the patch for a new pod of the same
         // name.
         {{"uid", pod.uid},
          {"annotations", {{std::string(api::kConfigAnnotation), desired.config}}}}}};
    const Result<Object> patched =
        context_.client.merge(k8s::resources::kPods, pod.ns, pod.name, patch);
    if (patched.ok()) {
      // Throttled: a pool has many pods, and a user may change the pool often.
      base::log_from("configurations of CachePool " + pod.ns + "/" + pod.pool,
                     base::LogLevel::kInfo, "the pod's larderd gets a changed configuration",
                     {{"kind", "Pod"},
                      {"namespace", pod.ns},
                      {"name", pod.name},
                      {"owner_kind", "CachePool"},
                      {"owner", pod.pool}});
      continue;
    }
    // The pod is gone, or another pod has its name.
    const Code code = patched.status().code();
    if (code != Code::kNotFound && code != Code::kFailedPrecondition)
      keep_first(facts.configured, patched.status());
  }
  return false;
}

// Kubernetes deletes the pool's objects by their owner references.
Done PoolReconciler::end(const k8s::Key& key, const k8s::ObjectPtr& object) {
  report_(key, std::nullopt, false);
  if (object && has_memory_finalizer(*object)) return freeing_.free(*object, pods_of(key).larderds);
  freeing_.forget(key);
  return {};
}

Done PoolReconciler::reconcile(const k8s::Key& key) {
  const k8s::ObjectPtr object = context_.pools.find(key.ns, key.name);
  if (!object || !api::text_at(*object, "metadata.deletionTimestamp").empty())
    return end(key, object);
  // The finalizer comes before the memory. A pool without it still works, and the next reconcile
  // tries again.
  // The order: finalizer, then objects, then status. A deletion between finalizer and objects frees
  // the memory that exists by then.
  const Status held = freeing_.hold(*object);
  if (held.code() == Code::kNotFound) return {};                     // deleted meanwhile
  if (held.code() == Code::kFailedPrecondition) return {{}, kSoon};  // an update is on its way
  PoolFacts facts = observe(*object);
  if (facts.pool) {
    observe_policies(facts);
    facts.desired_state =
        desired_state_of(*facts.pool, facts.parsed_backend, context_.defaults, facts.isolation);
    apply_objects(facts);
    facts.peer_secret = keep_peer_secret(context_.client, *facts.pool, context_.now_s());
    observe_applied(facts);
  }
  const bool more = configure(facts);
  // The status is computed after all writes, so it reports their errors.
  const Object status = pool_status(facts, *object, context_.now());
  report_(key, sums_of(facts), truth_of({{"status", status}}, "Ready") == Truth::kTrue);
  Done done;
  keep_first(done.status, held);
  keep_first(done.status, facts.brought.status);
  keep_first(done.status, facts.configured);
  // A missing right comes with a change of the chart, which no retry can speed up.
  if (facts.peer_secret.status.code() != Code::kPermissionDenied)
    keep_first(done.status, facts.peer_secret.status);
  keep_first(done.status, write_status(context_, k8s::resources::kPools, *object, status));
  if (facts.brought.waiting || facts.peer_secret.waiting || more) done.again = kSoon;
  // Nothing wakes the pool when a foreign object releases its name, when a node gets pages, or when
  // a certificate is old: look once a minute.
  else if (!facts.brought.taken.empty() || waits_for_hugepages(facts) ||
           (facts.pool && facts.pool->spec.peers))
    done.again = kLater;
  return done;
}

}  // namespace larder::reconcile

#include "operator/reconcile/backend_reconciler.h"

#include <algorithm>
#include <utility>

#include "operator/api/cache_pool.h"
#include "operator/api/names.h"
#include "operator/desired/backend_objects.h"
#include "operator/desired/plugin.h"
#include "operator/reconcile/backend_status.h"

namespace larder::reconcile {
namespace {

using api::Object;

constexpr const char* kPrefixWithoutPools = "larder";

Owner owner_of(const api::CacheBackend& backend) {
  return {"CacheBackend", backend.ns, backend.name, backend.uid};
}

// An operator without the right to read namespaces (an older ClusterRole) chooses the ids itself.
Result<desired::ServerIds> ids_in(k8s::ApiClient& client, const api::CacheBackend& backend) {
  using enum desired::ServerIds;
  if (!backend.spec.managed) return kOurs;
  const Result<Object> ns = client.get(k8s::resources::kNamespaces, "", backend.ns);
  if (ns.ok()) return api::annotation(*ns, api::kUserRangeAnnotation) ? kPlatforms : kOurs;
  const Code code = ns.status().code();
  if (code == Code::kNotFound || code == Code::kPermissionDenied) return kOurs;
  return ns.status();
}

}  // namespace

BackendReconciler::BackendReconciler(const Context& context, BackendCheck& check, Answers answers)
    : context_(context), check_(check), answers_(std::move(answers)) {}

// A reconcile gets a name and reads everything else from the caches: the operator may repeat or
// lose any call.
std::vector<api::CachePool> BackendReconciler::pools_of(const k8s::Key& key) const {
  std::vector<api::CachePool> pools;
  for (const k8s::ObjectPtr& object : context_.pools.all(key.ns)) {
    if (api::text_at(*object, "spec.backendRef.name") != key.name) continue;
    if (Result<api::CachePool> pool = api::parse_pool(*object); pool.ok())
      pools.push_back(std::move(*pool));
  }
  return pools;
}

SidecarsView BackendReconciler::sidecars_of(const k8s::Key& key) const {
  SidecarsView view;
  std::vector<PodView> pods;
  for (const api::CachePool& pool : pools_of(key))
    for (const k8s::ObjectPtr& pod : context_.pods.all(key.ns))
      if (api::label(*pod, api::kPoolLabel) == pool.name) pods.push_back(view_of(*pod));
  // Sorted, so the first name in a message stays the same from check to check. A changing message
  // would be a write of the status each time.
  std::ranges::sort(pods, {}, &PodView::name);
  const auto answers = answers_(pods);
  for (const PodView& pod : pods) {
    const auto found = answers.find(pod.uid);
    // A silent larderd says nothing about the backend.
    if (found == answers.end() || !found->second.backend) continue;
    const LarderdAnswer::Backend& backend = *found->second.backend;
    // A backend that is only slow at the moment has no reason and counts as reached.
    const bool uses = backend.serving || backend.reason.empty();
    ++view.asked;
    view.serving += uses ? 1 : 0;
    if (!uses) view.why_not = backend.reason;
    if (backend.serving && view.mode.empty()) view.mode = backend.mode;
    if (!uses || backend.reason.empty()) continue;
    if (view.degraded.empty()) view.why_degraded = backend.reason;
    view.degraded.push_back(pod.name);
  }
  return view;
}

BackendFacts BackendReconciler::observe(const Object& object) const {
  BackendFacts facts;
  facts.generation = api::number_at(object, "metadata.generation");
  // An invalid spec gets a status only. The objects of the server stay as they are (F-254).
  Result<api::CacheBackend> parsed = api::parse_backend(object);
  if (!parsed.ok()) {
    facts.parsed = parsed.status();
    return facts;
  }
  facts.backend = std::move(*parsed);
  facts.ids = ids_in(context_.client, *facts.backend);
  facts.no_plugin_image = api::plugin_of(facts.backend) &&
                          desired::plugin_image(*facts.backend, context_.defaults).empty();
  facts.secrets = read_secrets(context_.client, *facts.backend);
  facts.sidecars = sidecars_of({facts.backend->ns, facts.backend->name});
  return facts;
}

// Without knowledge of the namespace, another user would restart a server and empty its cache.
void BackendReconciler::apply_objects(BackendFacts& facts) const {
  if (facts.ids.ok())
    facts.brought = bring(context_.client, context_.children, owner_of(*facts.backend),
                          desired::backend_objects(*facts.backend, context_.defaults, *facts.ids));
  else
    facts.brought.status = facts.ids.status();
}

void BackendReconciler::observe_applied(BackendFacts& facts, const std::stop_token& stop) {
  const api::CacheBackend& backend = *facts.backend;
  for (const k8s::ObjectPtr& child : children_of(context_.children, owner_of(backend)))
    if (api::text_at(*child, "kind") == "StatefulSet") facts.stateful_set = child;
  // Only the plug-in speaks to the service: larderd's answers tell the state.
  if (api::plugin_of(facts.backend)) return;
  // Without the password the check would report a wrong password, and hide the missing Secret.
  if (!facts.secrets.missing.empty() || !facts.secrets.unreadable.empty()) return;
  // Check under the prefix of a pool, since the user's permissions may be limited to the prefix.
  const std::vector<api::CachePool> pools = pools_of({backend.ns, backend.name});
  const std::string prefix =
      pools.empty() ? kPrefixWithoutPools : desired::backend_prefix(pools.front());
  facts.seen = check_.check(backend, facts.secrets, prefix, stop);
}

Done BackendReconciler::reconcile(const k8s::Key& key, const std::stop_token& stop) {
  const k8s::ObjectPtr object = context_.backends.find(key.ns, key.name);
  // Kubernetes deletes the managed server by its owner reference.
  if (!object || !api::text_at(*object, "metadata.deletionTimestamp").empty()) return {};
  BackendFacts facts = observe(*object);
  if (facts.backend) {
    apply_objects(facts);
    observe_applied(facts, stop);
  }
  if (stop.stop_requested()) return {Status(Code::kUnavailable, "stopping")};  // incomplete check
  // The status may have changed during the check: continue from the current object.
  const k8s::ObjectPtr newest = context_.backends.find(key.ns, key.name);
  const Object& before = newest ? *newest : *object;
  Done done;
  keep_first(done.status, facts.brought.status);
  keep_first(done.status, write_status(context_, k8s::resources::kBackends, before,
                                       backend_status(facts, before, context_.now())));
  // A check every 30 s repairs a lost event as well. A deleted object of an earlier backend is gone
  // after about a second.
  done.again = std::chrono::milliseconds(facts.brought.waiting ? 1000 : kCheckMs);
  return done;
}

}  // namespace larder::reconcile

#include "operator/reconcile/memory_freeing.h"

#include <algorithm>
#include <set>
#include <utility>

#include "operator/api/names.h"
#include "operator/desired/object_head.h"
#include "operator/desired/pool_objects.h"
#include "operator/reconcile/conditions.h"
#include "sidecar/base/log_throttle.h"

namespace larder::reconcile {
namespace {

using api::Object;
using std::chrono::milliseconds;

k8s::Key key_of(const Object& pool) {
  return {api::namespace_of(pool), api::name_of(pool)};
}

Object finalizers_of(const Object& pool) {
  const Object& there = api::at(pool, "metadata.finalizers");
  return there.is_array() ? there : Object::array();
}

bool has_finalizer(const Object& pool, std::string_view which) {
  const Object there = finalizers_of(pool);
  return std::ranges::find(there, Object(which)) != there.end();
}

bool is_owned(const Object& object, const std::string& uid) {
  const Object& owners = api::at(object, "metadata.ownerReferences");
  return std::ranges::any_of(
      owners, [&uid](const Object& owner) { return api::text_at(owner, "uid") == uid; });
}

std::string with_nodes(const Freed& freed) {
  if (freed.nodes < 0) return "the DaemonSet that frees the memory has not started";
  std::string text = std::to_string(freed.freed) + " of " + std::to_string(freed.nodes) +
                     " nodes have freed their memory";
  return freed.waits.empty() ? text : text + ", not " + some_of(freed.waits);
}

}  // namespace

bool has_memory_finalizer(const Object& pool) {
  return has_finalizer(pool, api::kMemoryFinalizer);
}

// A pod of the DaemonSet counts as done when its larderd with the hash kFreeing has ended with 0.
// The kubelet starts that container again and again, so lastState counts, too (pod_view.cc).
Freed freed_of(const Object& daemon_set, const std::vector<PodView>& pods) {
  Freed freed;
  std::set<std::string> waits;
  for (const PodView& pod : pods) {
    const bool done = pod.restart_hash == desired::kFreeing && pod.completed;
    freed.freed += done ? 1 : 0;
    if (!done && !pod.node.empty()) waits.insert(pod.node);
  }
  freed.waits.assign(waits.begin(), waits.end());
  // Before the DaemonSet's controller has seen the new template, desiredNumberScheduled belongs to
  // the old one.
  const std::int64_t seen = api::number_at(daemon_set, "status.observedGeneration", -1);
  if (seen >= api::number_at(daemon_set, "metadata.generation"))
    freed.nodes = api::number_at(daemon_set, "status.desiredNumberScheduled");
  return freed;
}

MemoryFreeing::MemoryFreeing(const Context& context, const base::Clock& clock)
    : context_(context), clock_(clock) {}

// A pool of placement Sidecar has its memory in its pods, and needs no finalizer.
Status MemoryFreeing::hold(const Object& pool) {
  if (api::text_at(pool, "spec.placement") != "Node" || has_memory_finalizer(pool)) return {};
  Object finalizers = finalizers_of(pool);
  finalizers.push_back(api::kMemoryFinalizer);
  return set_finalizers(pool, std::move(finalizers));
}

// Writes the whole list, which may have finalizers of others, with the version that was read, since
// others may change the list.
Status MemoryFreeing::set_finalizers(const Object& pool, Object finalizers) {
  const Object patch{{"metadata",
                      {{"resourceVersion", api::text_at(pool, "metadata.resourceVersion")},
                       {"finalizers", std::move(finalizers)}}}};
  return context_.client
      .merge(k8s::resources::kPools, api::namespace_of(pool), api::name_of(pool), patch)
      .status();
}

Done MemoryFreeing::free(const Object& object, const std::vector<PodView>& pods) {
  // The patience counts from the first reconcile of the deletion in this process. A new leader
  // counts anew (F-230).
  const milliseconds left = patience_left(key_of(object));
  const Result<api::CachePool> pool = api::parse_pool(object);
  // A spec that cannot be parsed gives no DaemonSet that could free the memory: the pool goes, with
  // a warning.
  if (!pool.ok()) return release(object, pool.status().text());
  const k8s::Cache& sets = *context_.children.at(k8s::resources::kDaemonSets.plural);
  k8s::ObjectPtr set = sets.find(pool->ns, desired::pool_name(*pool));
  // `kubectl delete --cascade=orphan` leaves the DaemonSet, and larderd goes on: nothing to free.
  if (has_finalizer(object, "orphan") || (set && !is_owned(*set, pool->uid)))
    return release(object, "");

  const Owner owner{"CachePool", pool->ns, pool->name, pool->uid};
  const Brought brought = bring(context_.client, context_.children, owner,
                                desired::freeing_objects(*pool, context_.defaults));
  // In a namespace under deletion the API server refuses new objects with 403 (F-231). Waiting
  // would block the deletion of the namespace.
  if (brought.status.code() == Code::kPermissionDenied)
    return release(object, brought.status.text());
  if (!brought.taken.empty()) return release(object, brought.taken.front());
  // Judge a write only when the caches show it.
  Freed freed;
  if (brought.status.ok() && brought.writes == 0 && set) freed = freed_of(*set, pods);
  if (freed.all()) return release(object, "");
  // A node that is away must not hold the pool for ever (F-229): the Event names the node and the
  // command.
  if (left.count() == 0) return release(object, with_nodes(freed));
  return {brought.status, brought.writes > 0 || brought.waiting ? kSoon : left};
}

Done MemoryFreeing::release(const Object& pool, const std::string& left) {
  const k8s::Key key = key_of(pool);
  Object finalizers = Object::array();
  for (const Object& one : finalizers_of(pool))
    if (one != Object(api::kMemoryFinalizer)) finalizers.push_back(one);
  const Status released = set_finalizers(pool, std::move(finalizers));
  // 409: another controller removed its own finalizer at the same time. The next reconcile reads
  // the new list.
  if (released.code() == Code::kFailedPrecondition) return {{}, kSoon};  // another writer was first
  if (!released.ok() && released.code() != Code::kNotFound) return {released};
  forget(key);
  const base::LogFields fields{{"kind", "CachePool"}, {"namespace", key.ns}, {"name", key.name}};
  // Throttled by namespace: a deleted namespace ends all its pools at once.
  const std::string source = "deleted pools of namespace " + key.ns;
  if (left.empty()) {
    base::log_from(source, base::LogLevel::kInfo,
                   "the pool is free to go: no node has memory of the pool", fields);
    return {};
  }
  // The path on the node is that of desired/volumes.cc.
  const std::string path = "/larder/" + key.ns + "/" + key.name;
  const std::string note =
      "the pool is deleted, and nodes may still have memory of the pool: " + left +
      ". On such a node: rm -r /dev/shm" + path + " /dev/hugepages" + path;
  base::log_from(source + ", whose memory may be left", base::LogLevel::kWarning, note, fields);
  if (context_.tell)
    context_.tell({k8s::reference_to(k8s::resources::kPools, pool), "Warning", "MemoryNotFreed",
                   "Deleting", note});
  return {};
}

// The rest of kPatience for a pool; 0: release the pool.
milliseconds MemoryFreeing::patience_left(const k8s::Key& key) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t now = clock_.now_ms(), most = static_cast<std::uint64_t>(kPatience.count());
  const std::uint64_t spent = now - began_ms_.try_emplace(key, now).first->second;
  return milliseconds(spent >= most ? 0 : static_cast<std::int64_t>(most - spent));
}

void MemoryFreeing::forget(const k8s::Key& key) {
  const std::lock_guard lock(mutex_);
  began_ms_.erase(key);
}

}  // namespace larder::reconcile

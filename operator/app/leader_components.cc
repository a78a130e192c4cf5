#include "operator/app/leader_components.h"

#include <chrono>
#include <ctime>

#include "operator/api/names.h"
#include "operator/reconcile/conditions.h"
#include "operator/reconcile/isolation.h"
#include "sidecar/base/log_throttle.h"
#include "sidecar/base/nap.h"

namespace larder::app {
namespace {

using api::Object;
using k8s::Key;
using k8s::ObjectPtr;

Key key_of(const Object& object) {
  return {api::namespace_of(object), api::name_of(object)};
}

std::string managed_by_us() {
  return std::string(api::kManagedByLabel) + "=" + std::string(api::kFieldManager);
}

}  // namespace

LeaderComponents::LeaderComponents(const Replica& replica)
    : shared_informers_(replica.informers),
      clock_(replica.clock),
      events_(replica.writer, replica.identity, replica.clock, replica.metrics),
      pool_queue_(k8s::WorkQueue::make("cachepool", replica.clock, &replica.metrics)),
      backend_queue_(k8s::WorkQueue::make("cachebackend", replica.clock, &replica.metrics)),
      pool_metrics_(replica.metrics),
      check_(reconcile::BackendCheck::make(replica.clock)) {
  // Only labelled pods: the memory follows the number of pods with a cache, and not the size of the
  // cluster.
  follow(replica.reader, k8s::resources::kPods, std::string(api::kPoolLabel));
  // All NetworkPolicies: policies of other writers decide about the policy for peers.
  for (const k8s::Resource& kind : reconcile::owned_kinds())
    follow(replica.reader, kind, kind == k8s::resources::kNetworkPolicies ? "" : managed_by_us());

  reconcile::ChildCaches children;
  for (const k8s::Resource& kind : reconcile::owned_kinds())
    children[kind.plural] = informers_.at(kind.plural).get();
  // Wall time: conditions show people when a state began.
  const auto now = [] { return reconcile::rfc3339(std::time(nullptr)); };
  context_.reset(new reconcile::Context{
      replica.writer, shared_informers_.pools(), shared_informers_.backends(),
      *informers_.at("pods"), std::move(children), replica.defaults, now,
      [this](k8s::Event event) { events_.record(std::move(event)); }});
  // The lambdas reach prober_ through `this`, since begin() creates the prober later. Controllers
  // start after the prober.
  const auto hear = [this](const std::vector<reconcile::PodView>& pods) {
    return prober_->heard(pods);
  };
  const auto answers = [hear](const std::vector<reconcile::PodView>& pods) {
    return hear(pods).answers;
  };
  pools_ = std::make_unique<reconcile::PoolReconciler>(
      *context_, hear,
      [this](const Key& key, const std::optional<reconcile::PoolSums>& sums, bool ready) {
        pool_metrics_.tell(key, sums, ready);
      },
      clock_);
  backends_ = std::make_unique<reconcile::BackendReconciler>(*context_, *check_, answers);
  beginning_ = std::jthread(
      [this, &metrics = replica.metrics](const std::stop_token& stop) { begin(stop, metrics); });
}

// An object in a list that has not arrived would look like a missing object.
bool LeaderComponents::await_all(const std::stop_token& stop) {
  // The informers have no common signal for "all are synced"; a look every 200 ms is cheap and ends
  // with the stop.
  constexpr std::chrono::milliseconds kProbe{200};
  const auto known = [](const k8s::Cache& cache) { return cache.synced(); };
  while (!stop.stop_requested()) {
    bool all = known(shared_informers_.pools()) && known(shared_informers_.backends());
    for (const auto& [plural, informer] : informers_) all = all && known(*informer);
    if (all) return true;
    base::nap(kProbe, stop);
  }
  return false;
}

// The wait for the lists runs on a thread of its own: a lost lease must be able to end the leader's
// parts meanwhile.
void LeaderComponents::begin(const std::stop_token& stop, k8s::Metrics& metrics) {
  if (!await_all(stop)) return;
  prober_ = std::make_unique<reconcile::Prober>(
      reconcile::Fetch::make(), [this] { return targets(); },
      [this](const Key& pool) { pool_queue_->add(pool); });
  pool_controller_ = std::make_unique<reconcile::Controller>(
      "cachepool", *pool_queue_, metrics, kPoolWorkers,
      [this](const Key& key, const std::stop_token&) { return pools_->reconcile(key); });
  backend_controller_ = std::make_unique<reconcile::Controller>(
      "cachebackend", *backend_queue_, metrics, kBackendWorkers,
      [this](const Key& key, const std::stop_token& ended) {
        return backends_->reconcile(key, ended);
      });
  // The listeners come before add_everything(): a change between the two is queued twice at worst,
  // and never lost.
  shared_informers_.tell(
      [this](const k8s::Resource& resource, const ObjectPtr& before, const ObjectPtr& after) {
        pool_or_backend_changed(resource, before, after);
      });
  add_everything();
  // Throttled, since a lease may change hands often.
  base::log_refusal("leader", "reconciling begins", base::LogLevel::kInfo, "reconciling begins");
}

// First the sources of new keys, then the controllers, which end their reconciles; the caches that
// the reconciles read go last.
LeaderComponents::~LeaderComponents() {
  // The thread of begin() ends first, since it creates the other parts.
  beginning_ = {};
  shared_informers_.tell(nullptr);
  pool_controller_.reset();
  backend_controller_.reset();
  prober_.reset();
  informers_.clear();
  pool_metrics_.forget_all();
}

void LeaderComponents::follow(k8s::ApiClient& reader, const k8s::Resource& resource,
                              const std::string& labels) {
  const bool pods = resource == k8s::resources::kPods;
  k8s::Informing informing;
  informing.resource = resource;
  informing.selector.labels = labels;
  if (pods) informing.trim = reconcile::trim_pod;
  if (resource == k8s::resources::kNetworkPolicies) informing.trim = reconcile::trim_policy;
  informing.changed = [this, pods](const ObjectPtr& before, const ObjectPtr& after) {
    if (before && after && *before == *after) return;  // only trimmed fields differ
    for (const ObjectPtr& one : {before, after})
      if (one) pods ? pod_changed(*one) : child_changed(*one);
  };
  informers_[resource.plural] = k8s::Informer::start(reader, std::move(informing), clock_);
}

void LeaderComponents::pool_or_backend_changed(const k8s::Resource& resource,
                                               const ObjectPtr& before, const ObjectPtr& after) {
  // A deleted object has only `before`.
  const Key key = key_of(after ? *after : *before);
  if (resource == k8s::resources::kPools) return pool_queue_->add(key);
  backend_queue_->add(key);
  // The configuration of a pool's pods holds the backend's URL and files.
  for (const ObjectPtr& pool : shared_informers_.pools().all(key.ns))
    if (api::text_at(*pool, "spec.backendRef.name") == key.name) pool_queue_->add(key_of(*pool));
}

// before and after may name different pools: both get a look, so the former pool stops counting the
// pod.
void LeaderComponents::pod_changed(const Object& pod) {
  if (const auto pool = api::label(pod, api::kPoolLabel))
    pool_queue_->add({api::namespace_of(pod), *pool});
}

// A child that a user changed or deleted wakes its owner, which restores the child.
void LeaderComponents::child_changed(const Object& child) {
  for (const Object& owner : api::at(child, "metadata.ownerReferences")) {
    const Key key{api::namespace_of(child), api::text_at(owner, "name")};
    if (api::text_at(owner, "kind") == "CachePool") pool_queue_->add(key);
    if (api::text_at(owner, "kind") == "CacheBackend") backend_queue_->add(key);
  }
  if (api::text_at(child, "kind") == k8s::resources::kNetworkPolicies.kind) policy_changed(child);
}

// A policy of another writer may select the pods of any pool with peers in its namespace.
void LeaderComponents::policy_changed(const Object& policy) {
  for (const ObjectPtr& pool : shared_informers_.pools().all(api::namespace_of(policy)))
    if (!api::at(*pool, "spec.peers").is_null()) pool_queue_->add(key_of(*pool));
}

// Also unchanged objects: the previous leader may have died with work half done.
void LeaderComponents::add_everything() {
  for (const ObjectPtr& backend : shared_informers_.backends().all())
    backend_queue_->add(key_of(*backend));
  for (const ObjectPtr& pool : shared_informers_.pools().all()) pool_queue_->add(key_of(*pool));
}

// The targets are computed anew in each round, from the pods of now.
std::vector<reconcile::Prober::Target> LeaderComponents::targets() const {
  std::vector<reconcile::Prober::Target> targets;
  for (const ObjectPtr& pod : informers_.at("pods")->all()) {
    const reconcile::PodView view = reconcile::view_of(*pod);
    if (view.has_larderd && reconcile::answers(view))
      targets.push_back({{view.ns, view.pool},
                         view.uid,
                         reconcile::Prober::url_of(view),
                         reconcile::Prober::supervisor_url_of(view)});
  }
  return targets;
}

}  // namespace larder::app

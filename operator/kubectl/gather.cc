#include "operator/kubectl/gather.h"

#include <algorithm>

#include "operator/api/names.h"
#include "sidecar/base/text.h"

namespace larder::kubectl {
namespace {

using api::Object;

constexpr std::size_t kMostEvents = 8;  // the newest decides; more only costs memory

Object or_null(Result<Object> object) {
  return object.ok() ? *std::move(object) : Object();
}

std::optional<std::string> annotation_in(const Object& template_or_object) {
  const auto value = api::annotation(template_or_object, api::kPoolAnnotation);
  return value ? std::optional(base::printable(*value)) : std::nullopt;
}

// The pod's controller, or the controller of its ReplicaSet.
// Deployment, StatefulSet, Job and operators' own kinds: advice names the object that the user
// edits, not the ReplicaSet.
WorkloadState workload_of(const Cluster& cluster, const PodState& pod) {
  std::string kind = pod.owner_kind, name = pod.owner_name;
  Object object;
  for (int up = 0; up < 2 && !kind.empty() && is_name(name); ++up) {
    // Two API groups may have kinds of the same name. kubectl takes the first, good enough for
    // advice.
    object = or_null(cluster.object(kind, pod.view.ns, name));
    std::string above_kind, above_name;
    for (const Object& owner : api::at(object, "metadata.ownerReferences"))
      if (api::truth_at(owner, "controller")) {
        above_kind = api::text_at(owner, "kind");
        above_name = api::text_at(owner, "name");
      }
    if (kind != "ReplicaSet" || above_kind.empty()) break;
    kind = above_kind;
    name = above_name;
  }
  if (object.is_null()) return {};
  return {base::printable(kind), base::printable(name), annotation_in(object),
          annotation_in(api::at(object, "spec.template"))};
}

// Events of the operator about the pod or its owner, newest first.
// Events live an hour in the API server. For an older pod there are none, and the diagnosis goes on
// without.
std::vector<std::string> events_of(const Cluster& cluster, const PodState& pod) {
  const Result<std::vector<Object>> events =
      cluster.objects("events", pod.view.ns, "--field-selector=reason=NotInjected");
  if (!events.ok()) return {};
  std::vector<std::pair<std::string, std::string>> found;  // when, what
  for (const Object& event : *events) {
    const std::string name = api::text_at(event, "involvedObject.name");
    // The Event is about the pod's owner, since the pod had no uid at its review; or about the pod.
    if (name != pod.view.name && name != pod.owner_name) continue;
    found.emplace_back(api::text_at(event, "metadata.creationTimestamp"),
                       base::printable(api::text_at(event, "message")));
  }
  std::ranges::sort(found, std::greater<>());
  std::vector<std::string> texts;
  for (auto& [when, what] : found)
    if (texts.size() < kMostEvents) texts.push_back(std::move(what));
  return texts;
}

// Slices and not Endpoints: Kubernetes 1.33 deprecates Endpoints.
ServingState serving_of(const Cluster& cluster, const WebhookState& webhook) {
  if (!is_name(webhook.service) || !is_name(webhook.service_namespace)) return {};
  const Result<std::vector<Object>> slices =
      cluster.objects("endpointslices", webhook.service_namespace,
                      "--selector=kubernetes.io/service-name=" + webhook.service);
  if (!slices.ok()) return {};
  const ServingState seen = serving_seen(*slices, {});
  if (seen.port != 0) return seen;
  return serving_seen(
      *slices, or_null(cluster.object("service", webhook.service_namespace, webhook.service)));
}

}  // namespace

// The label is set by the injector. The annotation is the request of the user, and also stands in a
// pod without a cache.
std::string pool_of(const PodState& pod) {
  return pod.view.pool.empty() ? pod.wanted_pool.value_or("") : pod.view.pool;
}

// Invariant: an object that the user may not read is reported, and the diagnosis uses the rest.
// Each request has its own "known" in the facts.
InjectionFacts gather_injection(const Cluster& cluster, const PodState& pod) {
  InjectionFacts facts;
  facts.pod = pod;
  const Result<std::vector<Object>> pools =
      cluster.objects("cachepools." + std::string(api::kGroup), pod.view.ns);
  facts.pools_known = pools.ok();
  // kubectl's NotFound means an unknown kind here: an empty list is no error.
  facts.installed = pools.ok() || pools.status().code() != Code::kNotFound;
  if (pools.ok())
    for (const Object& pool : *pools) facts.pools.push_back(api::name_of(pool));
  const Object space = or_null(cluster.object("namespace", "", pod.view.ns));
  if (!pod.wanted_pool) {
    facts.workload = workload_of(cluster, pod);
    facts.namespace_pool = base::printable(api::label(space, api::kPoolLabel).value_or(""));
    if (facts.namespace_pool.empty() || pod.declined) return facts;
  }
  // The injector's own sentence is the whole answer, so no further request is needed.
  if (!pod.not_injected.empty()) return facts;
  facts.events = events_of(cluster, pod);
  // Needs a right on cluster level, which users of one namespace often lack.
  const Result<std::vector<Object>> webhooks = cluster.objects("mutatingwebhookconfigurations", "");
  if (!webhooks.ok()) {
    facts.webhook_known = webhooks.status();
    return facts;
  }
  facts.webhook =
      webhook_seen(*webhooks, space, pod.wanted_pool ? kWebhookName : kNamespaceWebhookName);
  if (facts.webhook.there) facts.serving = serving_of(cluster, facts.webhook);
  return facts;
}

// The constructor asks all larderds at once; the object then answers from memory.
Fleet::Fleet(const Cluster& cluster, std::vector<PodState> pods, std::size_t most,
             const PodState* first)
    : pods_(std::move(pods)) {
  std::ranges::sort(pods_, {},
                    [](const PodState& pod) { return std::pair(pod.view.ns, pod.view.name); });
  const PodState* before_others = first == nullptr ? nullptr : larderd_of(*first);
  // The pod of `why` comes first, so that the limit of requests never leaves it out.
  std::vector<PodState> asked;
  if (before_others != nullptr) asked.push_back(*before_others);
  for (const PodState& pod : pods_) {
    if (!pod.view.has_larderd || pod.view.over ||
        (before_others != nullptr && pod.view.uid == before_others->view.uid))
      continue;
    if (asked.size() < most)
      asked.push_back(pod);
    else
      ++not_asked_;
  }
  std::vector<Result<ctl::Snapshot>> answers = cluster.larderds(asked);
  for (std::size_t i = 0; i < asked.size(); ++i)
    answers_.emplace(asked[i].view.uid, std::move(answers[i]));
}

// In placement Node the pod has no larderd; the larderd of the same pool on the same node serves.
const PodState* Fleet::larderd_of(const PodState& pod) const {
  if (pod.view.has_larderd) return &pod;
  const auto serves = [&](const PodState& other) {
    return other.is_node_larderd() && !other.view.over && other.view.ns == pod.view.ns &&
           other.view.pool == pool_of(pod) && other.node == pod.node && !pod.node.empty();
  };
  const auto found = std::ranges::find_if(pods_, serves);
  return found == pods_.end() ? nullptr : &*found;
}

// A null pointer has three causes: larderd did not answer, was not asked because of the bound, or
// does not exist.
const ctl::Snapshot* Fleet::answer_of(const PodState& larderd, Status* why) const {
  const auto found = answers_.find(larderd.view.uid);
  if (found == answers_.end()) {
    if (why != nullptr)
      *why = Status(Code::kOutOfRange,
                    "larderd was not asked, since there are many pods; --all asks each");
    return nullptr;
  }
  if (!found->second.ok() && why != nullptr) *why = found->second.status();
  return found->second.ok() ? &*found->second : nullptr;
}

HitFacts Fleet::facts_of(const PodState& pod, const PoolState* pool) const {
  HitFacts facts;
  facts.pod = pod;
  if (const PodState* larderd = larderd_of(pod)) {
    facts.larderd_pod = *larderd;
    facts.larderd = answer_of(*larderd, &facts.not_asked);
  }
  for (const PodState& other : pods_) {
    if (other.view.uid == pod.view.uid || other.view.ns != pod.view.ns ||
        pool_of(other) != pool_of(pod))
      continue;
    const ctl::Snapshot* said = other.view.has_larderd ? answer_of(other) : nullptr;
    // Pods of one node share a larderd: the own larderd is no other one to compare with.
    if (said != nullptr && said != facts.larderd) facts.others[other.view.name] = said;
  }
  if (pool != nullptr) {
    facts.by_node = pool->by_node;
    facts.has_backend = !pool->backend.empty();
    facts.adds_flags = pool->adds_flags;
  }
  return facts;
}

}  // namespace larder::kubectl

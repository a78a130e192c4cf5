#include "operator/webhook/owner_event.h"

#include "sidecar/base/log_throttle.h"

namespace larder::webhook {
namespace {

constexpr std::size_t kMostText = 253;  // of a name, kind or version; longer texts are ignored

bool is_text(const api::Object& object, const char* key) {
  const std::string text = api::text_at(object, key);
  return !text.empty() && text.size() <= kMostText;
}

// The controller among the owners, or else the first owner; null: no owner.
// kubectl describe of the Deployment's ReplicaSet shows the Event. The pod itself has no uid during
// its review, and may never exist under its name.
api::Object owner_of(const api::Object& pod, const std::string& ns) {
  const api::Object& owners = api::at(pod, "metadata.ownerReferences");
  const api::Object* best = nullptr;
  if (!owners.is_array()) return {};
  for (const api::Object& owner : owners) {
    if (!is_text(owner, "apiVersion") || !is_text(owner, "kind") || !is_text(owner, "name") ||
        !is_text(owner, "uid"))
      continue;
    if (best == nullptr || api::truth_at(owner, "controller")) best = &owner;
    if (api::truth_at(owner, "controller")) break;
  }
  if (best == nullptr) return {};
  return {{"apiVersion", api::text_at(*best, "apiVersion")},
          {"kind", api::text_at(*best, "kind")},
          {"namespace", ns},
          {"name", api::text_at(*best, "name")},
          {"uid", api::text_at(*best, "uid")}};
}

// Bounded. A pod under admission may lack a name.
// A template gives generateName; the name follows after the admission.
std::string pod_name(const api::Object& pod) {
  if (is_text(pod, "metadata.name")) return api::name_of(pod);
  return is_text(pod, "metadata.generateName") ? api::text_at(pod, "metadata.generateName") + "*"
                                               : "";
}

// Bounded, since the annotation of a pod may have any text.
std::string pool_name(const PodReview::Left& left) {
  return left.pool.size() <= kMostText ? left.pool : "";
}

}  // namespace

// The order: the owner, a bare pod, or else the pool. An Event about nothing would be lost.
std::optional<k8s::Event> left_alone_event(const PodReview::Left& left) {
  const api::Object& pod = left.pod;
  const std::string& ns = left.ns;
  api::Object regarding = owner_of(pod, ns);
  if (regarding.is_null() && is_text(pod, "metadata.name"))
    regarding = {
        {"apiVersion", "v1"}, {"kind", "Pod"}, {"namespace", ns}, {"name", api::name_of(pod)}};
  std::string note = left.why;
  if (const std::string pool = pool_name(left); regarding.is_null() && !pool.empty()) {
    regarding = k8s::reference_to(
        k8s::resources::kPools,
        // The uid of the pool lets `kubectl describe cachepool` find the Event.
        {{"metadata", {{"namespace", ns}, {"name", pool}, {"uid", left.pool_uid}}}});
    note = "pod " + pod_name(pod) + ": " + left.why;
  }
  if (regarding.is_null()) return {};
  return k8s::Event{std::move(regarding), "Warning", "NotInjected", "Injecting", std::move(note)};
}

// A client may send any number of reviews: the log is throttled by its address.
void log_left_alone(const PodReview::Left& left) {
  const std::string name = pod_name(left.pod), pool = pool_name(left);
  base::log_from("reviews of " + std::string(left.from), base::LogLevel::kWarning,
                 "not injected: " + left.why,
                 {{"namespace", left.ns}, {"pod", name}, {"cachepool", pool}});
}

}  // namespace larder::webhook

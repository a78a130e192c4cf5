// plan: what is wanted and what is there in, what to apply and what to remove out. Pure; thread-safe.
//
// An object that equals what was applied last is left alone: it carries the hash of that, and has all of it still (subset.h: what
// others added counts for nothing). What is ours by owner and label and wanted no more is removed. What is another's is not touched.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "operator/api/object.h"
#include "operator/k8s/api_client.h"
#include "operator/k8s/informer.h"

namespace larder::reconcile {

// Of what the operator applies: the hash of it, so that a field that is wanted no more is noticed.
inline constexpr std::string_view kAppliedAnnotation = "larder.dev/applied";

// The kinds that pools and backends are made of; those whose leftovers are looked for.
std::span<const k8s::Resource> owned_kinds();
// Of an object by its kind; null: none of owned_kinds().
const k8s::Resource* owned_kind(const api::Object& object);

struct Owner {
  std::string kind, ns, name, uid;
};

struct Step {
  k8s::Resource resource;
  api::Object object;  // to apply; to remove: name, namespace and uid are enough
  std::string why;     // for the log: "is not there", "spec.replicas differs"
};

struct Plan {
  std::vector<Step> apply, remove;
  // Names that somebody else has: one sentence each, that says what to do.
  std::vector<std::string> taken;
  // Something of an earlier owner is just going: to be planned again when it is gone.
  bool waiting = false;
  bool empty() const { return apply.empty() && remove.empty(); }
};

// `observed`: objects of owned_kinds() of the owner's namespace, any of them; what is not there counts as not existing.
Plan plan(const Owner& owner, const std::vector<api::Object>& desired, const std::vector<k8s::ObjectPtr>& observed);

}  // namespace larder::reconcile

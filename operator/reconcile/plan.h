// plan: wanted and observed objects in; objects to apply and to remove out. Pure; thread-safe.
//
// - An object with the hash of the wanted state and all wanted fields stays as it is (subset.h).
//   Additions of other writers do not count. Server-side apply removes fields that are no longer
//   wanted.
// - The plan removes an object only if label and the controller's uid make the object ours. The
//   deletion names the object's own uid.
// - The plan never takes over an object of another owner; the condition names that owner.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "operator/api/object.h"
#include "operator/k8s/api_client.h"
#include "operator/k8s/informer.h"

namespace larder::reconcile {

// Hash of the wanted object, on every applied object. A changed hash reveals a field that is no
// longer wanted.
inline constexpr std::string_view kAppliedAnnotation = "larder.dev/applied";

// The kinds of objects of pools and backends. The plan looks for leftovers of these kinds.
std::span<const k8s::Resource> owned_kinds();
// The entry of owned_kinds() for an object's kind; null: no entry.
const k8s::Resource* owned_kind(const api::Object& object);

struct Owner {
  std::string kind, ns, name, uid;
};

// Whose an existing object with a wanted name is.
enum class Claim {
  kOurs,       // of the owner, or of Larder without an owner
  kGoing,      // under deletion
  kOfEarlier,  // of an earlier owner of the same name
  kTaken,      // of another owner, or of no controller and not of Larder
};
Claim claim_on(const api::Object& live, const Owner& owner);
// One sentence with the remedy. REQUIRES: claim_on() is kTaken.
std::string taken_text(const api::Object& live, const Owner& owner);

struct Step {
  k8s::Resource resource;
  api::Object object;  // the object to apply; for a removal: name, namespace and uid
  std::string why;     // for the log: "is not there", "spec.replicas differs"
};

struct Plan {
  std::vector<Step> apply, remove;
  // Names of objects of other owners: one sentence each, with the remedy.
  std::vector<std::string> taken;
  // An object of an earlier owner is being deleted. Plan again when it is gone.
  bool waiting = false;
  bool empty() const { return apply.empty() && remove.empty(); }
};

// `observed`: objects of owned_kinds() in the owner's namespace. An object that is not in
// `observed` counts as missing.
Plan plan(const Owner& owner, const std::vector<api::Object>& desired,
          const std::vector<k8s::ObjectPtr>& observed);

}  // namespace larder::reconcile

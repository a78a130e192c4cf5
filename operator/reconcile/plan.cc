#include "operator/reconcile/plan.h"

#include <algorithm>
#include <array>

#include "operator/api/names.h"
#include "operator/desired/short_hash.h"
#include "operator/reconcile/subset.h"

namespace larder::reconcile {
namespace {

using api::Object;
using k8s::ObjectPtr;

// Distinguishes wanted states. The hash protects against no attacker.
std::string hash_of(const Object& object) {
  return desired::short_hash(object.dump(-1, ' ', false, Object::error_handler_t::replace));
}

// The annotation holds the hash of the wanted object. A field that is wanted no more changes the
// hash; the comparison of live fields alone would not see the removal.
Object with_hash(const Object& wanted) {
  Object stamped = wanted;
  stamped["metadata"]["annotations"][std::string(kAppliedAnnotation)] = hash_of(wanted);
  return stamped;
}

// The owner reference with `controller: true`; null: none.
const Object& controller_of(const Object& object) {
  static const Object kNone;
  for (const Object& owner : api::at(object, "metadata.ownerReferences"))
    if (api::truth_at(owner, "controller")) return owner;
  return kNone;
}

bool is_managed(const Object& object) {
  return api::label(object, api::kManagedByLabel) == std::string(api::kFieldManager);
}

bool same_name(const Object& a, const Object& b) {
  return api::text_at(a, "kind") == api::text_at(b, "kind") && api::name_of(a) == api::name_of(b);
}

// Without a namespace: owner and object are in the same one.
std::string called(const Object& object) {
  return api::text_at(object, "kind") + " " + api::name_of(object);
}

class Planning {
 public:
  explicit Planning(const Owner& owner) : owner_(owner) {}

  // Nothing is applied where the live object has every wanted field. An apply of an equal object
  // costs a request every 30 s for each object.
  void want(const k8s::Resource& resource, const Object& wanted, const Object* live) {
    const Object stamped = with_hash(wanted);
    if (live == nullptr) return apply(resource, stamped, "is not there");
    if (!may_take(resource, *live)) return;
    const std::optional<std::string> difference = first_difference(*live, stamped);
    if (difference) apply(resource, stamped, *difference + " differs");
  }
  void remove(const k8s::Resource& resource, const Object& live, std::string why) {
    plan_.remove.push_back({resource, live, std::move(why)});
  }
  // Both tests: a user may copy our label to another object, and a foreign controller may own an
  // object with our name.
  bool is_ours(const Object& live) const {
    return is_managed(live) && api::text_at(controller_of(live), "uid") == owner_.uid;
  }
  Plan take() { return std::move(plan_); }

 private:
  void apply(const k8s::Resource& resource, const Object& object, std::string why) {
    plan_.apply.push_back({resource, object, std::move(why)});
  }
  // A pool that was deleted and created again has the same name and another uid. The garbage
  // collector removes the old objects sooner or later; the plan does not wait for that.
  bool may_take(const k8s::Resource& resource, const Object& live) {
    const Claim claim = claim_on(live, owner_);
    if (claim == Claim::kOfEarlier)
      remove(resource, live, "is of an earlier " + owner_.kind + " of this name");
    if (claim == Claim::kTaken) plan_.taken.push_back(taken_text(live, owner_));
    plan_.waiting |= claim == Claim::kGoing || claim == Claim::kOfEarlier;
    return claim == Claim::kOurs;
  }

  const Owner& owner_;
  Plan plan_;
};

}  // namespace

// Objects of Larder without an owner are ours, too, e.g. after an owner was deleted with
// --cascade=orphan. An object without any controller is taken only with our label.
Claim claim_on(const Object& live, const Owner& owner) {
  if (!api::text_at(live, "metadata.deletionTimestamp").empty()) return Claim::kGoing;
  const Object& controller = controller_of(live);
  const bool managed = is_managed(live);
  if (managed && (controller.is_null() || api::text_at(controller, "uid") == owner.uid))
    return Claim::kOurs;
  const bool of_earlier = managed && api::text_at(controller, "kind") == owner.kind &&
                          api::text_at(controller, "name") == owner.name;
  return of_earlier ? Claim::kOfEarlier : Claim::kTaken;
}

std::string taken_text(const Object& live, const Owner& owner) {
  const Object& controller = controller_of(live);
  return called(live) + " exists already and " +
         (controller.is_null() ? std::string("does not belong to Larder")
                               : "belongs to " + api::text_at(controller, "kind") + " " +
                                     api::text_at(controller, "name")) +
         ": delete or rename the object, or give this " + owner.kind + " another name";
}

std::span<const k8s::Resource> owned_kinds() {
  using namespace k8s::resources;
  static const std::array<k8s::Resource, 6> kKinds{kConfigMaps, kDaemonSets, kStatefulSets,
                                                   kServices,   kBudgets,    kNetworkPolicies};
  return kKinds;
}

const k8s::Resource* owned_kind(const Object& object) {
  const std::string kind = api::text_at(object, "kind");
  const auto found = std::ranges::find(owned_kinds(), kind, &k8s::Resource::kind);
  return found == owned_kinds().end() ? nullptr : &*found;
}

Plan plan(const Owner& owner, const std::vector<Object>& desired,
          const std::vector<ObjectPtr>& observed) {
  Planning planning(owner);
  for (const Object& wanted : desired) {
    const k8s::Resource* resource = owned_kind(wanted);
    if (resource == nullptr) continue;
    const auto live = std::ranges::find_if(
        observed, [&](const ObjectPtr& one) { return same_name(*one, wanted); });
    planning.want(*resource, wanted, live == observed.end() ? nullptr : live->get());
  }
  // Pruning: only objects that carry our label and our owner's uid.
  for (const ObjectPtr& live : observed) {
    const k8s::Resource* resource = owned_kind(*live);
    const bool wanted =
        std::ranges::any_of(desired, [&](const Object& one) { return same_name(one, *live); });
    if (resource == nullptr || wanted || !planning.is_ours(*live)) continue;
    // An object under deletion needs no second removal.
    if (api::text_at(*live, "metadata.deletionTimestamp").empty())
      planning.remove(*resource, *live, "is wanted no more");
  }
  return planning.take();
}

}  // namespace larder::reconcile

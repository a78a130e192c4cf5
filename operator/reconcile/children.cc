#include "operator/reconcile/children.h"

#include <algorithm>

#include "sidecar/base/log_throttle.h"

namespace larder::reconcile {
namespace {

using api::Object;
using k8s::ObjectPtr;

// Objects of the namespace in the caches, and wanted objects that exist without a place in the
// caches.
Result<std::vector<ObjectPtr>> observe(k8s::ApiClient& client, const ChildCaches& caches,
                                       const Owner& owner, const std::vector<Object>& desired) {
  std::vector<ObjectPtr> observed = children_of(caches, owner);
  // A wanted object without our label is missing in the caches, which select by the label. A GET
  // finds such an object: the name is taken, or the label was removed.
  for (const Object& wanted : desired) {
    const k8s::Resource* resource = owned_kind(wanted);
    if (resource == nullptr) continue;
    const std::string name = api::name_of(wanted);
    const auto cache = caches.find(resource->plural);
    const bool seen = std::ranges::any_of(observed, [&](const ObjectPtr& one) {
      return api::text_at(*one, "kind") == resource->kind && api::name_of(*one) == name;
    });
    // The comparison includes the kind: ConfigMap and DaemonSet of a pool have the same name.
    if (seen) continue;
    if (const ObjectPtr other =
            cache == caches.end() ? nullptr : cache->second->find(owner.ns, name)) {
      observed.push_back(other);
      continue;
    }
    // An error ends the reconcile here. A missing answer must not look like a missing object.
    Result<Object> live = client.get(*resource, owner.ns, name);
    if (live.ok())
      observed.push_back(std::make_shared<const Object>(std::move(*live)));
    else if (live.status().code() != Code::kNotFound)
      return live.status();
  }
  return observed;
}

std::string called(const Step& step) {
  return step.resource.kind + " " + api::namespace_of(step.object) + "/" +
         api::name_of(step.object) + ": ";
}

// Logs a step with object and owner under fixed keys, so that a search of logs can use the keys.
void log_step(const char* what, const Step& step, const Owner& owner) {
  // Throttled, since another controller may undo each step again and again.
  base::log_from(std::string(what) + " " + called(step) + step.why, base::LogLevel::kInfo,
                 std::string(what) + " it: " + step.why,
                 {{"kind", step.resource.kind},
                  {"namespace", owner.ns},
                  {"name", api::name_of(step.object)},
                  {"owner_kind", owner.kind},
                  {"owner", owner.name}});
}

}  // namespace

// By uid and not by name: a new owner of the same name must not adopt objects of its predecessor.
std::vector<ObjectPtr> children_of(const ChildCaches& caches, const Owner& owner) {
  std::vector<ObjectPtr> found;
  for (const auto& [plural, cache] : caches)
    for (const ObjectPtr& one : cache->all(owner.ns))
      for (const Object& reference : api::at(*one, "metadata.ownerReferences"))
        if (api::text_at(reference, "uid") == owner.uid) found.push_back(one);
  return found;
}

// One failed write does not stop the others. The first error is reported, and the queue tries
// again.
Brought bring(k8s::ApiClient& client, const ChildCaches& caches, const Owner& owner,
              const std::vector<Object>& desired) {
  Brought brought;
  const Result<std::vector<ObjectPtr>> observed = observe(client, caches, owner, desired);
  if (!observed.ok()) {
    brought.status = observed.status();
    return brought;
  }
  const Plan wanted = plan(owner, desired, *observed);
  brought.taken = wanted.taken;
  brought.waiting = wanted.waiting;
  for (const Step& step : wanted.remove) {
    log_step("removing", step, owner);
    // The uid in the call protects a new object of the same name, made between the list and this
    // call.
    const std::string uid = api::text_at(step.object, "metadata.uid");
    keep_first(brought.status,
               client.remove(step.resource, owner.ns, api::name_of(step.object), uid));
    ++brought.writes;
  }
  for (const Step& step : wanted.apply) {
    log_step("applying", step, owner);
    const Result<Object> applied = client.apply(step.resource, step.object);
    if (!applied.ok())
      keep_first(brought.status, {applied.status().code(), called(step) + applied.status().text()});
    ++brought.writes;
  }
  return brought;
}

}  // namespace larder::reconcile

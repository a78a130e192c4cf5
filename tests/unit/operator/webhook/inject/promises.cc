#include "tests/unit/operator/webhook/inject/promises.h"

#include <algorithm>
#include <set>

#include "operator/api/names.h"

namespace larder::test {
namespace {

using api::Object;

bool has_named(const Object& list, std::string_view name) {
  return std::ranges::any_of(
      list, [name](const Object& one) { return api::text_at(one, "name") == name; });
}

// All earlier elements are still there, in their order.
bool keeps(const Object& before, const Object& after) {
  std::size_t at = 0;
  for (const Object& one : before) {
    while (at < after.size() && api::text_at(after[at], "name") != api::text_at(one, "name")) ++at;
    if (at++ >= after.size()) return false;
  }
  return true;
}

// States that the API server's validation refuses, and an injection could cause: a duplicate name,
// a mount of no volume.
class Faults {
 public:
  explicit Faults(const Object& pod) {
    const Object& spec = api::at(pod, "spec");
    std::set<std::string> volumes, containers;
    for (const Object& volume : api::at(spec, "volumes"))
      once(volumes, "volume", api::text_at(volume, "name"));
    for (const char* list : {"initContainers", "containers"})
      for (const Object& container : api::at(spec, list)) {
        const std::string name = api::text_at(container, "name");
        once(containers, "container", name);
        look_into(container, name, volumes);
      }
  }
  // "" without a new fault compared with `before`.
  std::string beside(const Faults& before) const {
    for (const std::string& fault : found_)
      if (!before.found_.contains(fault)) return fault;
    return "";
  }

 private:
  void once(std::set<std::string>& seen, const std::string& what, const std::string& name) {
    if (!seen.insert(name).second) found_.insert("one " + what + " " + name);
  }
  void look_into(const Object& container, const std::string& name,
                 const std::set<std::string>& volumes) {
    std::set<std::string> paths, ports;
    for (const Object& mount : api::at(container, "volumeMounts")) {
      once(paths, name + " mounts", api::text_at(mount, "mountPath"));
      if (const std::string volume = api::text_at(mount, "name"); !volumes.contains(volume))
        found_.insert(name + " mounts a volume that there is, not " + volume);
    }
    for (const Object& port : api::at(container, "ports"))
      if (const std::string called = api::text_at(port, "name"); !called.empty())
        once(ports, name + "'s port", called);
  }

  std::set<std::string> found_;
};

std::string wrong_in_injected(const InjectionCase& one, const Object& after) {
  const bool on_node = one.pool->spec.placement == api::Placement::kNode;
  const Object& spec = api::at(after, "spec");
  if (!has_named(api::at(spec, "initContainers"), api::kPayloadContainer))
    return "the payload is copied";
  const Object& larderds =
      api::at(spec, one.defaults.native_sidecars ? "initContainers" : "containers");
  if (has_named(larderds, api::kSidecarContainer) == on_node)
    return "larderd is in the pod, or on the node";
  for (const char* list : {"containers", "initContainers", "volumes"})
    if (!keeps(api::at(one.pod, std::string("spec.") + list), api::at(spec, list)))
      return "earlier elements stay";
  if (const std::string fault = Faults(after).beside(Faults(one.pod)); !fault.empty()) return fault;
  const bool mounted =
      std::ranges::any_of(api::at(spec, "containers"), [](const Object& container) {
        return std::ranges::any_of(api::at(container, "volumeMounts"), [](const Object& mount) {
          return api::text_at(mount, "mountPath") == "/larder";
        });
      });
  return mounted ? "" : "an engine has the payload";
}

}  // namespace

std::string broken_promise(const InjectionCase& one) {
  const webhook::Injection first = one.inject();
  Object after;
  try {
    after = patched(one.pod, first.patch);
  } catch (const std::exception& error) {
    return std::string("the patch is valid: ") + error.what();
  }
  const webhook::Injection second = one.inject(after);
  if (!second.patch.empty()) return "twice is once";
  if (second.refused != first.refused) return "the reason stays";
  if (!first.refused.empty()) {
    Object expected = one.pod;
    if (!first.patch.empty())
      expected["metadata"]["annotations"][std::string(api::kNotInjectedAnnotation)] = first.refused;
    return after == expected ? "" : "a pod left alone gets a sentence only";
  }
  return first.patch.empty() ? "" : wrong_in_injected(one, after);
}

}  // namespace larder::test

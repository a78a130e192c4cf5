#include "tests/unit/operator/webhook/inject/injection_change.h"

#include <set>

#include "tests/unit/operator/webhook/inject/injection_case.h"

namespace larder::test {
namespace {

using api::Object;

// Whether all elements are objects with names, each name once.
bool is_named(const Object& list) {
  if (!list.is_array()) return false;
  std::set<std::string> names;
  for (const Object& element : list)
    if (const std::string name = api::text_at(element, "name");
        name.empty() || !names.insert(name).second)
      return false;
  return true;
}

const Object& find(const Object& list, const std::string& name) {
  static const Object kNone;
  if (list.is_array())
    for (const Object& element : list)
      if (api::text_at(element, "name") == name) return element;
  return kNone;
}

// The elements that the usual pod gets in a list of that name.
Object usual_elements(const UsualPod& usual, const std::string& list) {
  const Object& spec = api::child(usual.after, "spec");
  if (list == "containers" || list == "initContainers") return api::child(spec, "initContainers");
  return list == "volumes" ? api::child(spec, list)
                           : api::child(api::child(spec, "containers").at(0), list);
}

Object changes(const Object& before, const Object& after, const UsualPod* usual);

Object changed_element(const char* word, const Object& base, const Object& element,
                       const UsualPod* usual) {
  const std::string name = api::text_at(element, "name");
  if (base == element) return word + (" " + name);
  Object change = changes(base, element, usual);
  change[word] = name;
  return change;
}

Object changed_list(const std::string& key, const Object& before, const Object& after,
                    const UsualPod* usual) {
  const Object ours = usual == nullptr ? Object() : usual_elements(*usual, key);
  Object list = Object::array();
  for (const Object& element : after) {
    const std::string name = api::text_at(element, "name");
    if (const Object& old = find(before, name); !old.is_null())
      list.push_back(changed_element("same", old, element, usual));
    else if (const Object& our = find(ours, name); !our.is_null())
      list.push_back(changed_element("usual", our, element, nullptr));
    else
      list.push_back(element);
  }
  return list;
}

// Of two objects. `usual`: null inside an element of the usual pod.
Object changes(const Object& before, const Object& after, const UsualPod* usual) {
  Object result = Object::object();
  for (const auto& [key, value] : after.items()) {
    const Object& old = api::child(before, key);
    if (before.contains(key) && old == value) continue;
    if (value.is_object() && (old.is_null() || old.is_object()))
      result[key] = changes(old.is_null() ? Object::object() : old, value, usual);
    else if (is_named(value) && (old.is_null() || is_named(old)))
      result[key] = changed_list(key, old, value, usual);
    else
      result[key] = value;
  }
  for (const auto& [key, value] : before.items())
    if (!after.contains(key)) result[key] = "gone";
  return result;
}

// Of a whole pod: a single container that was there before stands under `container`.
Object pod_changes(const Object& before, const Object& after, const UsualPod& usual) {
  Object result = changes(before, after, &usual);
  const auto spec = result.find("spec");
  if (spec == result.end() || !spec->contains("containers")) return result;
  const Object& containers = spec->at("containers");
  if (containers.size() != 1 || !containers[0].contains("same")) return result;
  Object container = containers[0];
  container.erase("same");
  result["container"] = std::move(container);
  spec->erase("containers");
  return result;
}

void take_away(const Object& usual, Object& result) {
  for (const auto& [key, value] : usual.items()) {
    const auto found = result.find(key);
    if (found == result.end()) {
      result[key] = nullptr;
    } else if (*found == value) {
      result.erase(found);
    } else if (value.is_object() && found->is_object()) {
      take_away(value, *found);
    }
  }
}

}  // namespace

Object result_of(const Object& before, const webhook::Injection& injection, const UsualPod& usual) {
  if (!injection.passed_by.empty()) return "passed by";
  if (!injection.refused.empty()) return {{"not injected", injection.refused}};
  Object result = pod_changes(before, patched(before, injection.patch), usual);
  Object expected = pod_changes(usual.before, usual.after, usual);
  if (api::child(api::child(result, "spec"), "containers").is_array()) expected.erase("container");
  take_away(expected, result);
  return result;
}

}  // namespace larder::test

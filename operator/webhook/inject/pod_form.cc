#include "operator/webhook/inject/pod_form.h"

#include <algorithm>

namespace larder::webhook {
namespace {

using api::Object;

const Object& member(const Object& parent, const char* key) {
  static const Object kNull;
  const auto at = parent.find(key);
  return at == parent.end() ? kNull : *at;
}

// null counts as absent, as in the API server's own decoder.
bool is_map(const Object& object) {
  return object.is_object() || object.is_null();
}
bool is_text(const Object& object) {
  return object.is_string();
}
bool is_list(const Object& object, const auto& element) {
  return object.is_null() || (object.is_array() && std::ranges::all_of(object, element));
}

bool is_text_map(const Object& object) {
  return object.is_null() || (object.is_object() && std::ranges::all_of(object, is_text));
}

// A container or volume without a name is refused by the API server later; here every loop may rely
// on the name.
bool is_named(const Object& object) {
  return object.is_object() && member(object, "name").is_string();
}
bool is_mount(const Object& object) {
  return object.is_object();
}

std::string wrong_in_container(const Object& container) {
  for (const char* key : {"command", "args"})
    if (!is_list(member(container, key), is_text)) return key;
  if (!is_list(member(container, "env"), is_named)) return "env";
  for (const char* key : {"envFrom", "volumeMounts", "ports"})
    if (!is_list(member(container, key), is_mount)) return key;
  for (const char* key : {"resources", "securityContext"})
    if (!is_map(member(container, key))) return key;
  const Object& claims = member(container, "resources").is_object()
                             ? member(member(container, "resources"), "claims")
                             : Object();
  return is_list(claims, is_mount) ? "" : "resources.claims";
}

// Each field that some file of this room reads without a test of its own is checked here.
std::string wrong_in_spec(const Object& spec) {
  const Object& containers = member(spec, "containers");
  if (!containers.is_array() || containers.empty()) return "spec.containers";
  for (const char* key : {"containers", "initContainers", "volumes"})
    if (!is_list(member(spec, key), is_named)) return std::string("spec.") + key;
  for (const char* key : {"imagePullSecrets", "resourceClaims"})
    if (!is_list(member(spec, key), is_mount)) return std::string("spec.") + key;
  for (const char* key : {"containers", "initContainers"})
    for (const Object& container : member(spec, key))
      if (const std::string wrong = wrong_in_container(container); !wrong.empty())
        return std::string("spec.") + key + "." + wrong;
  for (const char* key : {"securityContext", "resources", "os", "nodeSelector"})
    if (!is_map(member(spec, key))) return std::string("spec.") + key;
  const Object& security = member(spec, "securityContext");
  const Object& groups = security.is_object() ? member(security, "supplementalGroups") : security;
  const bool numbers =
      is_list(groups, [](const Object& group) { return group.is_number_integer(); });
  return numbers || groups.is_object() ? "" : "spec.securityContext.supplementalGroups";
}

}  // namespace

std::string wrong_form(const Object& pod) {
  // Any client may send a review by hand, so any JSON may come.
  if (!pod.is_object()) return "the top level";
  const Object& metadata = member(pod, "metadata");
  if (!is_map(metadata)) return "metadata";
  for (const char* key : {"annotations", "labels"})
    if (metadata.is_object() && !is_text_map(member(metadata, key)))
      return std::string("metadata.") + key;
  const Object& spec = member(pod, "spec");
  return spec.is_object() ? wrong_in_spec(spec) : "spec";
}

Object& list_in(Object& parent, const char* key) {
  Object& list = parent[key];
  if (!list.is_array()) list = Object::array();
  return list;
}

Object& map_in(Object& parent, const char* key) {
  Object& map = parent[key];
  if (!map.is_object()) map = Object::object();
  return map;
}

bool lists(const Object& list, const Object& value) {
  return list.is_array() && std::ranges::find(list, value) != list.end();
}

}  // namespace larder::webhook

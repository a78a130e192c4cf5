#include "operator/webhook/inject.h"

#include <string_view>

#include "operator/api/names.h"
#include "operator/webhook/inject/connector_flag.h"
#include "operator/webhook/inject/engine_container.h"
#include "operator/webhook/inject/engine_environment.h"
#include "operator/webhook/inject/json_patch.h"
#include "operator/webhook/inject/obstacles.h"
#include "operator/webhook/inject/pod_form.h"
#include "operator/webhook/inject/pod_parts.h"

namespace larder::webhook {
namespace {

using api::Object;

constexpr std::size_t kMostSentence = 1024;           // bytes of a reason
constexpr std::size_t kMostAnnotations = 256u << 10;  // of all annotations of an object: Kubernetes refuses more

bool has_container(const Object& pod, const char* list, std::string_view name) {
  const Object& containers = api::at(pod, list);
  if (!containers.is_array()) return false;
  for (const Object& container : containers)
    if (api::text_at(container, "name") == name) return true;
  return false;
}

// By what is in it, not by the annotation alone: that may have been copied into a template.
bool is_injected(const Object& pod) {
  return api::annotation(pod, api::kInjectedAnnotation) && has_container(pod, "spec.initContainers", api::kPayloadContainer);
}

std::string cut(std::string sentence) {
  if (sentence.size() <= kMostSentence) return sentence;
  std::size_t end = kMostSentence;
  while (end > 0 && (static_cast<unsigned char>(sentence[end]) & 0xC0) == 0x80) --end;  // not inside a character
  return sentence.substr(0, end) + "...";
}

std::size_t bytes_of(const Object& annotations) {
  std::size_t bytes = 0;
  for (const auto& [key, value] : annotations.items()) bytes += key.size() + value.get_ref<const std::string&>().size();
  return bytes;
}

Object& annotations_of(Object& pod) {
  return map_in(map_in(pod, "metadata"), "annotations");
}

void annotate(Object& pod, const Input& input) {
  Object& annotations = annotations_of(pod);
  annotations[std::string(api::kInjectedAnnotation)] = LARDER_VERSION "/" + input.pool->name;
  annotations.erase(std::string(api::kNotInjectedAnnotation));
  map_in(pod["metadata"], "labels")[std::string(api::kPoolLabel)] = input.pool->name;  // for those who select by it
  if (input.pool->spec.placement == api::Placement::kNode) {
    annotations[std::string(api::kRestartAnnotation)] = desired::engine_hash(*input.pool, input.defaults);
    return;
  }
  const desired::EnginePod engine{api::truth_at(pod, "spec.hostNetwork")};
  annotations[std::string(api::kConfigAnnotation)] = desired::larderd_config(*input.pool, input.backend, engine);
  annotations[std::string(api::kRestartAnnotation)] = desired::restart_hash(*input.pool, input.backend, input.defaults, engine);
}

Status connect(Object& container, const EngineContainer& engine, const Input& input) {
  const api::PoolSpec& spec = input.pool->spec;
  if (spec.engine.flags)
    if (Status status = add_connector_flag(container, engine.shape, spec.chunk_tokens); !status.ok()) return status;
  if (Status status = set_environment(container, engine.shape, desired::socket_path(*input.pool), input.pool->name); !status.ok())
    return status;
  return add_mounts(container, input);
}

// "" and the pod has its cache; else why not, and the pod is changed in part.
std::string give_cache(Object& pod, const Input& input) {
  const auto engines = find_engines(pod, input.pool->spec.engine);
  if (!engines.ok()) return engines.status().text();
  for (const EngineContainer& engine : *engines) {
    Object& container = pod["spec"]["containers"][engine.index];
    if (const Status status = connect(container, engine, input); !status.ok())
      return "its container " + api::text_at(container, "name") + " cannot be connected: " + status.text();
  }
  add_containers(pod, input, *engines);
  add_pull_secrets(pod, input);
  add_volumes(pod, input);
  add_groups(pod, input);
  annotate(pod, input);
  return "";
}

// REQUIRES: it has the form of a pod.
Injection say_why(const Input& input, Refusal kind, std::string why) {
  const std::string sentence = cut(std::move(why));
  Object after = input.pod;
  annotations_of(after)[std::string(api::kNotInjectedAnnotation)] = sentence;
  if (bytes_of(annotations_of(after)) > kMostAnnotations) return {Object::array(), sentence, kind};
  return {diff(input.pod, after), sentence, kind};
}

}  // namespace

Injection leave_alone(const Input& input, Refusal kind, std::string why) {
  if (!wrong_form(input.pod).empty()) return {Object::array(), cut(std::move(why)), kind};
  return is_injected(input.pod) ? Injection() : say_why(input, kind, std::move(why));
}

Injection inject(const Input& input) {
  if (const std::string wrong = wrong_form(input.pod); !wrong.empty())
    return {Object::array(), "it has not the form of a pod at " + wrong + "; nothing is changed in it", Refusal::kForm};
  if (is_injected(input.pod)) return {};
  if (std::string why = obstacle(input); !why.empty())
    return say_why(input, input.pool ? Refusal::kPod : Refusal::kNoPool, std::move(why));
  Object after = input.pod;
  if (std::string why = give_cache(after, input); !why.empty()) return say_why(input, Refusal::kEngine, std::move(why));
  if (bytes_of(annotations_of(after)) > kMostAnnotations)
    return say_why(input, Refusal::kPod,
                   "its annotations leave no room for larderd's configuration; Kubernetes allows 256 KiB of them together: "
                   "remove some");
  return {diff(input.pod, after), "", Refusal::kNone};
}

}  // namespace larder::webhook

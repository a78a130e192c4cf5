#include "operator/webhook/inject/inject.h"

#include <algorithm>
#include <string_view>

#include "operator/api/names.h"
#include "operator/webhook/inject/cluster_classes.h"
#include "operator/webhook/inject/connector_flag.h"
#include "operator/webhook/inject/engine_container.h"
#include "operator/webhook/inject/engine_environment.h"
#include "operator/webhook/inject/json_patch.h"
#include "operator/webhook/inject/limit_range.h"
#include "operator/webhook/inject/obstacles.h"
#include "operator/webhook/inject/pod_form.h"
#include "operator/webhook/inject/pod_marks.h"
#include "operator/webhook/inject/pod_overrides.h"
#include "operator/webhook/inject/pod_parts.h"
#include "operator/webhook/inject/pod_security.h"
#include "operator/webhook/inject/resource_quota.h"
#include "operator/webhook/inject/user_ids.h"

namespace larder::webhook {
namespace {

using api::Object;

// Every bound of this room is a constant kMost..., so a search finds all of them.
constexpr std::size_t kMostSentence = 1024;           // bytes of a reason
constexpr std::size_t kMostAnnotations = 256u << 10;  // Kubernetes' limit for all annotations

bool has_container(const Object& pod, const char* list, std::string_view name) {
  const Object& containers = api::at(pod, list);
  if (!containers.is_array()) return false;
  for (const Object& container : containers)
    if (api::text_at(container, "name") == name) return true;
  return false;
}

// Checks the containers too, since a user may copy the annotation into a template.
// With the annotation alone, a copied template would start without a cache and without a reason.
bool is_injected(const Object& pod) {
  return api::annotation(pod, api::kInjectedAnnotation) &&
         has_container(pod, "spec.initContainers", api::kPayloadContainer);
}

std::string cut(std::string sentence) {
  if (sentence.size() <= kMostSentence) return sentence;
  std::size_t end = kMostSentence;
  // A cut inside a character would make the annotation invalid UTF-8.
  while (end > 0 && (static_cast<unsigned char>(sentence[end]) & 0xC0) == 0x80)
    --end;  // not inside a character
  return sentence.substr(0, end) + "...";
}

std::size_t bytes_of(const Object& annotations) {
  std::size_t bytes = 0;
  for (const auto& [key, value] : annotations.items())
    bytes += key.size() + value.get_ref<const std::string&>().size();
  return bytes;
}

// An engine without spec.engine.flags still gets environment and mounts: its user has written the
// flag.
Status connect(Object& container, const EngineContainer& engine, const Input& input) {
  const api::PoolSpec& spec = input.pool->spec;
  if (spec.engine.flags)
    if (Status status = add_connector_flag(container, engine.shape, spec.chunk_tokens);
        !status.ok())
      return status;
  if (Status status = set_environment(container, engine.shape, desired::socket_path(*input.pool),
                                      input.pool->name);
      !status.ok())
    return status;
  return add_mounts(container, input);
}

// Whether a part of the pod shows that it runs vLLM. A container with the name of the pool's engine
// does not count: other pods use the name too.
// A pod of a labelled namespace that shows no engine stays without a word: databases and proxies
// are not Larder's affair.
bool may_be_engine(const Object& pod) {
  if (find_engines(pod, {}).ok()) return true;
  return std::ranges::any_of(api::at(pod, "spec.containers"), looks_like_engine);
}

// Why the pod gets no cache; kNone: the pod gets the cache.
struct Verdict {
  Refusal kind = Refusal::kNone;
  std::string why = {};
};

// Whether the namespace's limits would admit the changed pod, and its disk could get a volume.
// Checked last, on the finished pod: the additions of all steps count.
Verdict admitted(const Object& pod, const Input& input) {
  if (std::string why = refused_storage_class(input); !why.empty())
    return {Refusal::kNamespace, std::move(why)};
  if (const std::string why = refused_by_pod_security(input, pod); !why.empty())
    return {Refusal::kNamespace, "the namespace would refuse the pod: " + why};
  std::string why = refused_by_limit_range(input.pod, pod, input.surroundings);
  if (why.empty()) why = refused_by_quota(input, pod);
  if (why.empty()) return {};
  return {Refusal::kNamespace, "the namespace would refuse the pod: " + why +
                                   "; ask for less in memory.size or resources of CachePool " +
                                   input.pool->name + ", or raise that limit"};
}

// Adds the cache to `pod`. After a refusal, `pod` is partly changed.
// Changes a copy. A refusal drops the copy, so no half-injected pod exists.
Verdict give_cache(Object& pod, const Input& input) {
  const auto engines = find_engines(pod, input.pool->spec.engine);
  if (!engines.ok()) return {Refusal::kEngine, engines.status().text()};
  // The overrides come before everything that reads resources.
  Result<api::CachePool> pool = with_overrides(pod, *input.pool);
  if (!pool.ok()) return {Refusal::kPod, pool.status().text()};
  Input mine = input;
  mine.pool = *std::move(pool);
  const Result<UserIds> ids = user_ids(mine);
  if (!ids.ok()) return {Refusal::kNamespace, ids.status().text()};
  for (const EngineContainer& engine : *engines) {
    Object& container = pod["spec"]["containers"][engine.index];
    if (const Status status = connect(container, engine, mine); !status.ok())
      return {Refusal::kEngine, "container " + api::text_at(container, "name") +
                                    " cannot be connected: " + status.text()};
  }
  add_containers(pod, mine, *engines, *ids);
  add_pull_secrets(pod, mine);
  add_volumes(pod, mine);
  add_groups(pod, mine, *ids);
  // mark_injected() gets the pool without overrides: its hash must equal the one that the operator
  // computes from the pool.
  mark_injected(pod, input);
  add_pool_marks(pod, *input.pool);
  mark_volumes(pod, input.pod);
  return admitted(pod, mine);
}

// REQUIRES: input.pod has the form of a pod.
// The reason is the only change. Without room for it, the pod stays unchanged and the Event tells.
Injection say_why(const Input& input, Refusal kind, std::string why) {
  const std::string sentence = cut(std::move(why));
  Object after = input.pod;
  annotations_of(after)[std::string(api::kNotInjectedAnnotation)] = sentence;
  if (bytes_of(annotations_of(after)) > kMostAnnotations) return {Object::array(), sentence, kind};
  return {diff(input.pod, after), sentence, kind};
}

// Why inject() skips a pod: the pod declines, or only its namespace requests the cache and the pod
// has no engine. "": no reason. REQUIRES: input.pod has the form of a pod.
std::string pass_by(const Input& input) {
  if (api::annotation(input.pod, api::kInjectAnnotation) == "false")
    return "the pod's annotation larder.dev/inject is \"false\"";
  if (input.by_pod) return "";
  return may_be_engine(input.pod)
             ? ""
             : "no container of the pod starts vLLM, and only the namespace asks for a cache";
}

Injection passed_by(std::string why) {
  Injection injection;
  injection.passed_by = std::move(why);
  return injection;
}

}  // namespace

Injection leave_alone(const Input& input, Refusal kind, std::string why) {
  if (!wrong_form(input.pod).empty())
    return input.by_pod ? Injection{Object::array(), cut(std::move(why)), kind}
                        : passed_by(std::move(why));
  if (std::string passed = pass_by(input); !passed.empty()) return passed_by(std::move(passed));
  return is_injected(input.pod) ? Injection() : say_why(input, kind, std::move(why));
}

bool needs_no_pool(const Input& input) {
  return !wrong_form(input.pod).empty() || is_injected(input.pod) || !pass_by(input).empty();
}

// Invariant: a pod that cannot be read safely gets no cache. A pod without a cache is better than a
// pod that does not start or serve.
Injection inject(const Input& input) {
  if (const std::string wrong = wrong_form(input.pod); !wrong.empty()) {
    std::string why =
        "the pod is malformed at " + wrong + "; the injector leaves the pod unchanged";
    return input.by_pod ? Injection{Object::array(), std::move(why), Refusal::kForm}
                        : passed_by(std::move(why));
  }
  // An injected pod may come again: by a reinvocation of the webhooks, or by a user who applies the
  // YAML of a live pod.
  if (is_injected(input.pod)) return {};
  if (std::string why = pass_by(input); !why.empty()) return passed_by(std::move(why));
  if (std::string why = obstacle(input); !why.empty())
    return say_why(input, input.pool ? Refusal::kPod : Refusal::kNoPool, std::move(why));
  Object after = input.pod;
  if (Verdict verdict = give_cache(after, input); verdict.kind != Refusal::kNone)
    return say_why(input, verdict.kind, std::move(verdict.why));
  // larderd's configuration is an annotation, and Kubernetes bounds the sum of all annotations.
  if (bytes_of(annotations_of(after)) > kMostAnnotations)
    return say_why(input, Refusal::kPod,
                   "the pod's annotations leave no room for larderd's configuration; Kubernetes "
                   "allows 256 KiB of annotations: remove some");
  // Invariant: a pod keeps all its containers, volumes, variables and words in their order.
  return {diff(input.pod, after), "", Refusal::kNone};
}

}  // namespace larder::webhook

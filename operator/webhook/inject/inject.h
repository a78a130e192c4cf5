// inject: a pod and its pool in, a JSON patch out. Pure: no network, time or environment. Thread-safe; never throws.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "operator/api/cache_backend.h"
#include "operator/api/cache_pool.h"
#include "operator/desired/larderd.h"

namespace larder::webhook {

// Why a pod was left alone, as one of a few kinds that a metric can count.
enum class Refusal { kNone, kForm, kNoPool, kPod, kEngine, kNamespace, kUnreadable, kDefect };

// The kinds but kNone, and the words of the metric's label `reason`.
inline constexpr std::array<std::pair<Refusal, const char*>, 7> kRefusals{{
    {Refusal::kForm, "form"},              // it is no pod by its form
    {Refusal::kNoPool, "no_pool"},         // there is no such pool
    {Refusal::kPod, "pod"},                // something in the pod stands in the way: names, ports, resources, Windows
    {Refusal::kEngine, "engine"},          // no engine was found, or it cannot be connected
    {Refusal::kNamespace, "namespace"},    // its namespace would refuse it with a cache: LimitRange, ResourceQuota, user ids
    {Refusal::kUnreadable, "unreadable"},  // the pool could not be read
    {Refusal::kDefect, "defect"},          // of the injector
}};

// Annotations by which OpenShift gives a namespace ids: START/SIZE or START-END.
inline constexpr std::string_view kUserRangeAnnotation = "openshift.io/sa.scc.uid-range";
inline constexpr std::string_view kGroupRangesAnnotation = "openshift.io/sa.scc.supplemental-groups";

// The facts of a pod's namespace that bear on an injection. What is not known is empty, and then decides nothing.
struct Surroundings {
  using Kept = std::shared_ptr<const api::Object>;  // shared with the cache that keeps it
  Kept ns;                                          // the Namespace: labels and annotations
  std::vector<Kept> limit_ranges;
  std::vector<Kept> quotas;  // ResourceQuotas, with their status
};

// The pool that a pod gets its cache of.
struct Wish {
  std::string pool;
  bool by_pod = true;  // false: the namespace asks for its pods, and a pod that is no engine is passed by
};
// The pod's annotation larder.dev/pool, else the label larder.dev/pool of its namespace `ns` (null: not known). Nothing: neither is there,
// or the pod's annotation larder.dev/inject is "false".
std::optional<Wish> wish_of(const api::Object& pod, const Surroundings::Kept& ns);

struct Injection {
  api::Object patch = api::Object::array();  // RFC 6902; empty: nothing to change
  // Empty: the pod has its cache. Else why it was left alone and what to do, one sentence; the patch then only says so in
  // an annotation, and the caller makes an Event of it.
  std::string refused;
  Refusal kind = Refusal::kNone;
  // Why a pod that its namespace asked for was passed by: no engine was found in it. No patch and no Event say so.
  std::string passed_by = {};
};

struct Input {
  const api::Object& pod;              // as under admission: name and namespace may be missing
  std::string ns;                      // request.namespace
  std::string pool_name;               // of its Wish
  std::optional<api::CachePool> pool;  // nothing: there is no such pool
  std::optional<api::CacheBackend> backend;
  desired::Defaults defaults;
  bool by_pod = true;  // of its Wish
  Surroundings surroundings = {};
};

// inject(inject(pod)) = inject(pod): a pod that has been injected already gets an empty patch.
Injection inject(const Input& input);

// The same of a pod that is left alone for a reason that inject() cannot know: `why` in an annotation, where the pod has the form for one. One
// that has been injected already gets an empty patch.
Injection leave_alone(const Input& input, Refusal kind, std::string why);

}  // namespace larder::webhook

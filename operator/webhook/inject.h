// inject: a pod and its pool in, a JSON patch out. Pure: no network, time or environment. Thread-safe; never throws.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "operator/api/cache_backend.h"
#include "operator/api/cache_pool.h"
#include "operator/desired/larderd.h"

namespace larder::webhook {

// Why a pod was left alone, as one of a few kinds that a metric can count.
enum class Refusal { kNone, kForm, kNoPool, kPod, kEngine, kUnreadable, kDefect };

// The kinds but kNone, and the words of the metric's label `reason`.
inline constexpr std::array<std::pair<Refusal, const char*>, 6> kRefusals{{
    {Refusal::kForm, "form"},              // it is no pod by its form
    {Refusal::kNoPool, "no_pool"},         // there is no such pool
    {Refusal::kPod, "pod"},                // something in the pod stands in the way: names, ports, resources, Windows
    {Refusal::kEngine, "engine"},          // no engine was found, or it cannot be connected
    {Refusal::kUnreadable, "unreadable"},  // the pool could not be read
    {Refusal::kDefect, "defect"},          // of the injector
}};

struct Injection {
  api::Object patch = api::Object::array();  // RFC 6902; empty: nothing to change
  // Empty: the pod has its cache. Else why it was left alone and what to do, one sentence; the patch then only says so in
  // an annotation, and the caller makes an Event of it.
  std::string refused;
  Refusal kind = Refusal::kNone;
};

struct Input {
  const api::Object& pod;              // as under admission: name and namespace may be missing
  std::string ns;                      // request.namespace
  std::string pool_name;               // the annotation's value
  std::optional<api::CachePool> pool;  // nothing: there is no such pool
  std::optional<api::CacheBackend> backend;
  desired::Defaults defaults;
};

// inject(inject(pod)) = inject(pod): a pod that has been injected already gets an empty patch.
Injection inject(const Input& input);

// The same of a pod that is left alone for a reason that inject() cannot know: `why` in an annotation, where the pod has the form for one. One
// that has been injected already gets an empty patch.
Injection leave_alone(const Input& input, Refusal kind, std::string why);

}  // namespace larder::webhook

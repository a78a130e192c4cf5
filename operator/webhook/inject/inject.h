// inject: a pod and its pool in, a JSON patch out. Pure: no network, clock or environment.
// Thread-safe. Never throws, whatever the pod: pod_form.h checks the form first, and api::at()
// reads the rest.
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

// Why a pod got no cache, from a few kinds for a metric.
enum class Refusal { kNone, kForm, kNoPool, kPod, kEngine, kNamespace, kUnreadable, kDefect };

// The kinds without kNone, with the values of the metric's label `reason`.
inline constexpr std::array<std::pair<Refusal, const char*>, 7> kRefusals{{
    {Refusal::kForm, "form"},              // the object does not have the form of a pod
    {Refusal::kNoPool, "no_pool"},         // the pool does not exist
    {Refusal::kPod, "pod"},                // names, ports, resources of the pod, or Windows
    {Refusal::kEngine, "engine"},          // no engine found, or an engine that cannot be connected
    {Refusal::kNamespace, "namespace"},    // limits, Pod Security, user ids, StorageClass
    {Refusal::kUnreadable, "unreadable"},  // the pool is unreadable
    {Refusal::kDefect, "defect"},          // a bug in the injector
}};

// Facts of a pod's namespace that affect an injection. An unknown fact is empty and has no effect.
struct Surroundings {
  using Kept = std::shared_ptr<const api::Object>;  // shared with the informer's cache
  Kept ns;                                          // the Namespace: labels and annotations
  std::vector<Kept> limit_ranges;
  std::vector<Kept> quotas;  // ResourceQuotas, with their status
};

// The requested pool.
struct PoolRequest {
  std::string pool;
  bool by_pod = true;  // false: the namespace requests, and inject() skips pods without an engine
};
// The pod's annotation larder.dev/pool, or else the label larder.dev/pool of its namespace `ns`
// (null: unknown). Empty: neither exists, or the pod has the annotation larder.dev/inject: "false".
std::optional<PoolRequest> pool_request_of(const api::Object& pod, const Surroundings::Kept& ns);

struct Injection {
  api::Object patch = api::Object::array();  // RFC 6902; empty: nothing to change
  // Empty: the pod gets the cache. Otherwise one sentence with reason and remedy. The patch then
  // only adds an annotation with the sentence, and the caller records an Event.
  std::string refused;
  Refusal kind = Refusal::kNone;
  // Why inject() skipped a pod whose namespace requests the cache: no engine was found. Such a pod
  // gets no patch and no Event.
  std::string passed_by = {};
};

// Classes of the cluster that the pod has with a cache. Null: the cluster has no such class. Empty:
// unknown, or without effect.
struct Classes {
  std::optional<api::Object> runtime;  // the pod's own RuntimeClass, or else the pool's
  std::optional<api::Object> storage;  // the StorageClass of the pool's disk, or the default one
};

struct Input {
  const api::Object& pod;              // under admission: name and namespace may be missing
  std::string ns;                      // request.namespace
  std::string pool_name;               // of its PoolRequest
  std::optional<api::CachePool> pool;  // empty: the pool does not exist
  std::optional<api::CacheBackend> backend;
  desired::Defaults defaults;
  bool by_pod = true;  // of its PoolRequest
  Surroundings surroundings = {};
  Classes classes = {};
};

// inject(inject(pod)) = inject(pod): an injected pod gets an empty patch.
Injection inject(const Input& input);

// Whether inject() makes no change, whatever the pool: the pod has a cache, declines, is malformed,
// or has no engine where only the namespace requests.
bool needs_no_pool(const Input& input);

// For a reason outside inject(): writes `why` into an annotation if the pod has the form of a pod.
// An injected pod gets an empty patch.
Injection leave_alone(const Input& input, Refusal kind, std::string why);

}  // namespace larder::webhook

// The verdict of `kubectl larder check` on a planned pod, from the API server's answers to the pod
// with and without Larder. Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "operator/kubectl/diagnostic.h"
#include "operator/kubectl/injection_diagnostics.h"
#include "operator/kubectl/planned_pods.h"
#include "operator/kubectl/trial.h"

namespace larder::kubectl {

struct CheckFacts {
  PlannedPod planned;
  Trial with, without;                      // the pod as written, and without a request for a cache
  std::optional<InjectionFacts> injection;  // for a request without an injector's word
  std::vector<std::string> quotas;          // names of the namespace's ResourceQuotas
  std::vector<std::string> needed;          // see Planned
  Status namespace_known = {};              // why the namespace's request for a cache is unknown
};

enum class Verdict {
  kInjected,  // accepted, with the cache
  kNotAsked,  // accepted, without a request for a cache
  kNoCache,   // accepted, without the requested cache
  kRefused,
  kUnknown,
};

struct Checked {
  PlannedPod planned;
  Verdict verdict = Verdict::kUnknown;
  std::string pool;  // the pool of its cache
  Findings findings;
  // With and without Larder; varying values are replaced by their form; null: refused.
  api::Object pod, bare;
};

Checked check_pod(const CheckFacts& facts);

// The pod without a request for a cache.
api::Object without_larder(api::Object pod);
// The pod with the annotation that requests a cache of `pool`.
api::Object with_pool(api::Object pod, const std::string& pool);

}  // namespace larder::kubectl

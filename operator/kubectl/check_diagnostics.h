// What `kubectl larder check` says of a planned pod: judged from what the API server made of it with and without Larder. Pure; thread-safe.
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
  Trial with, without;                      // as it is written; and with nothing that asks for a cache
  std::optional<InjectionFacts> injection;  // of one that asks, or whose namespace asks, without a word of the injector
  std::vector<std::string> quotas;          // ResourceQuotas of its namespace, by name
  std::vector<std::string> needed;          // see Planned
  Status namespace_known = {};              // why it is not known whether the namespace asks, of one that does not
};

enum class Verdict {
  kInjected,  // it is taken, and has its cache
  kNotAsked,  // it is taken, and asks for none
  kNoCache,   // it is taken, and starts without the cache that it asks for
  kRefused,
  kUnknown,
};

struct Checked {
  PlannedPod planned;
  Verdict verdict = Verdict::kUnknown;
  std::string pool;  // whose cache it has
  Findings findings;
  api::Object pod,
      bare;  // with Larder and without, of what the API server gives anew each time only the form; null: it was refused
};

Checked check_pod(const CheckFacts& facts);

// The pod as it is written, with nothing that asks for a cache.
api::Object without_larder(api::Object pod);
// The pod as it is written, with the annotation that asks for a cache of `pool`.
api::Object with_pool(api::Object pod, const std::string& pool);

}  // namespace larder::kubectl

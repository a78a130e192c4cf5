// Gathers facts about pods from the cluster. Objects that the user may not read are reported as
// unknown and cause no error. Thread-compatible.
#pragma once

#include <string>
#include <vector>

#include "operator/kubectl/cluster.h"
#include "operator/kubectl/hit_diagnostics.h"
#include "operator/kubectl/injection_diagnostics.h"
#include "operator/kubectl/pool_state.h"

namespace larder::kubectl {

InjectionFacts gather_injection(const Cluster& cluster, const PodState& pod);

// The pods of one or more pools with the answers of their larderds. Returned pointers point into
// the Fleet.
class Fleet {
 public:
  // Asks at most `most` larderds: first the larderd that serves `first`, then the others in order
  // of names.
  Fleet(const Cluster& cluster, std::vector<PodState> pods, std::size_t most,
        const PodState* first = nullptr);

  const std::vector<PodState>& pods() const { return pods_; }
  std::size_t not_asked() const { return not_asked_; }

  // The pod whose larderd serves `pod`; null: none.
  const PodState* larderd_of(const PodState& pod) const;
  // The answer of `larderd`. Null: unknown, for the reason in `why`; kOutOfRange: not asked,
  // because of the bound.
  const ctl::Snapshot* answer_of(const PodState& larderd, Status* why = nullptr) const;
  // `pool`: null if unreadable.
  HitFacts facts_of(const PodState& pod, const PoolState* pool) const;

 private:
  std::vector<PodState> pods_;
  std::map<std::string, Result<ctl::Snapshot>> answers_;  // by uid
  std::size_t not_asked_ = 0;
};

// The name of the injected pool, or of the requested one.
std::string pool_of(const PodState& pod);

}  // namespace larder::kubectl
